"""A climb as a user holds it, and its records: one JSON line per climb."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

from weft.climbing import ladder
from weft.errors import ArgumentError
from weft.values.climb import ClimbResult, LadderText

_MAKE = "weft climb NAME --record FILE makes one"


class Climb(ClimbResult):
    """The result of `weft.climb`. `print` shows every rung; `save` writes a page or a record.

    ladder     the ladder's name
    device     where it ran: "sim:h200", "gpu:0"
    gpu        the name of the GPU
    rungs      a `RungResult` for each rung
    peers      library implementations and their times, where it was timed
    limits     what bounds the time on each size, where it was timed
    floors     the modelled least time on each size
    counted    the size that the rungs' counters belong to
    recorded   where and when the times were measured, if not by this climb

    >>> result = weft.climb("vecadd", to=0)
    >>> print(result.ladder, result.device, result.right)
    vecadd sim:h200 True
    """

    def __str__(self) -> str:
        """Each rung with its idea, its counters and its times."""
        from weft.report import climb_text

        return "\n".join(line for line, style in climb_text.rungs(None, self)).strip("\n")

    def save(self, path: str | Path) -> None:
        """Write a page (.html), or append a record that `load` reads (.jsonl)."""
        if Path(path).suffix != ".html":
            append(Path(path), self)
            return
        from weft.report import climb_page, files

        files.write(path, climb_page.page(self._texts(), self))

    @classmethod
    def load(cls, path: str | Path, name: str = "") -> Climb:
        """Return the newest record of a ladder in a file; without a name, the newest of all."""
        return climb(Path(path), name)

    def _repr_html_(self) -> str:
        """The notebook's view: the page of the climb, with sources if they are available."""
        from weft.report import climb_page

        return climb_page.framed(self._texts(), self)

    def _texts(self) -> LadderText | None:
        """The ladder's texts; None for a user's own ladder and for a benchmark of solutions."""
        try:
            return ladder.find(self.ladder).texts
        except ArgumentError:
            return None


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
