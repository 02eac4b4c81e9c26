"""Converts profiles to JSON and back, for `--json` and `weft profile a.json b.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from weft.device import models
from weft.errors import Error
from weft.measure.profile import metrics, schema
from weft.measure.profile.traffic import Traffic
from weft.values.profile import Profile

P = TypeVar("P", bound=Profile)
FORMAT = "weft profile 1"
MAX_BYTES = 1 << 28
"""The largest record; one kernel takes about 100 KiB."""
MAX_THREADS = 1024
LANES = 32


def dump(profiles: Sequence[Profile]) -> dict[str, Any]:
    """The record of these profiles."""
    return {"format": FORMAT, "profiles": [p.to_dict() for p in profiles]}


def load(path: str | Path, kind: type[P]) -> list[P]:
    """Read the profiles of a record as values of `kind`; raise Error if any part is invalid.

    The size of every view is bounded by the size of the record, not by numbers in it.
    """
    try:
        data = json.loads(_text(Path(path)))
        if data["format"] != FORMAT:
            raise ValueError(data["format"])
        profiles = [schema.value(kind, one, "profile") for one in data["profiles"]]
        for one in profiles:
            _check(one)
        return profiles
    except OSError as error:
        raise Error("cannot read the record", where=str(path), got=error.strerror or "") from None
    except RecursionError:
        raise _no_record(path, "lists that are nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_record(path, f"{type(error).__name__}: {error}"[:200]) from None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return text.decode()


def _no_record(path: str | Path, got: str) -> Error:
    return Error(
        "this is not a record of profiles",
        where=str(path),
        got=got,
        allowed=f'JSON with "format": "{FORMAT}"',
        next="`weft profile FILE --json > record.json` makes one",
    )


def _check(p: Profile) -> None:
    """Check what types cannot express: references between parts, and required counters."""
    models.get(p.gpu)
    if not 0 < p.launch.threads <= MAX_THREADS:
        raise ValueError(f"a block of {p.launch.threads} threads, not 1 to {MAX_THREADS}")
    # Views index instructions by these numbers.
    numbers = {i.index for i in p.instructions}
    named = {s.instruction for s in p.samples}.union(*(line.instructions for line in p.lines))
    if not named <= numbers:
        raise ValueError(f"instructions that are not there: {sorted(named - numbers)[:4]}")
    if missing := metrics.totals((), Traffic(0, 0, 0)).keys() - p.totals.keys():
        raise ValueError(f"totals without {', '.join(sorted(missing)[:4])}")
    if any(len(s.offsets) != LANES for s in p.samples):
        raise ValueError(f"a sample has {LANES} offsets, one for each lane")
