"""Reads and appends records of climbs: one JSON line per climb."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

from weft.climbing.climb import Climb
from weft.errors import ArgumentError

_MAKE = "weft climb NAME --record FILE makes one"


def climbs(path: Path) -> Iterator[Climb]:
    """All climbs of a file, the oldest first."""
    if not path.is_file():
        raise ArgumentError("no such file of records", got=str(path), next=_MAKE)
    # A damaged file gives an error with its line, not a decoding error.
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
    ):
        try:
            yield Climb.from_dict(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArgumentError(
                "this is no record of a climb",
                where=f"{path}:{number}",
                got=f"{line[:60]} ({type(error).__name__}: {error})",
                allowed="lines that `--record` of weft climb or weft bench has written",
            ) from error


def append(path: Path, result: Climb) -> None:
    """Appends a climb to a file."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.to_dict()) + "\n")
    except OSError as error:
        raise ArgumentError(
            "the record cannot be written", where=str(path), got=error.strerror or ""
        ) from None


def newest(path: Path) -> dict[str, Climb]:
    """The newest climb of each ladder."""
    return {result.ladder: result for result in climbs(path)}


def climb(path: Path, name: str = "") -> Climb:
    """The newest climb of a ladder by name or folder; without a name the newest of all."""
    wanted = Path(name).name
    matching = [c for c in climbs(path) if not wanted or c.ladder == wanted]
    if not matching:
        ladders = list(newest(path))
        near = difflib.get_close_matches(wanted, ladders, 1)
        raise ArgumentError(
            f"no climb of '{wanted}' in {path}" if wanted else f"no climb in {path}",
            got="" if ladders else "an empty file",
            allowed=", ".join(ladders),
            next=f"did you mean '{near[0]}'?" if near else "" if ladders else _MAKE,
        )
    return matching[-1]
