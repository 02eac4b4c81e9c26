"""Implements `weft.climb`: climbs a ladder by name."""

from __future__ import annotations

from pathlib import Path

from weft.climbing import ladder, records
from weft.climbing.climb import climb as climb_rungs
from weft.climbing.ladder import Ladder
from weft.climbing.recorded_times import with_recorded
from weft.climbing.records import Climb
from weft.device.selection import Selection, select
from weft.errors import ArgumentError, expect
from weft.progress import Notify


def climb(
    name: str | Path | Ladder,
    *,
    device: str | Selection = "sim",
    to: int | None = None,
    record: str | Path | None = None,
    progress: Notify = lambda what: None,
) -> Climb:
    """Compile, check and profile every rung of a ladder, from the simplest up.

    name      a ladder of weft ("matmul"), or the path of a folder with a ladder
    device    "sim" or "sim:MODEL" checks and counts; "gpu" also times
    to        the last rung to climb
    record    a file that the result is appended to; `Climb.load` reads it
    progress  called with the title of each rung

    On the simulated GPU the result has the recorded times of the ladder, if there are any. A rung
    that is wrong does not raise an error: see `Climb.right` and `RungResult.error`.

    >>> result = weft.climb("vecadd", to=1)
    >>> print(result.right, [rung.title for rung in result.rungs])
    True ['00 one thread', '01 one block']
    """
    expect("a ladder's name", name, str, Path, Ladder, allowed='a string: "matmul", "./mine"')
    expect("to", to, int, type(None), allowed="the number of a rung, or None")
    target, chosen = name if isinstance(name, Ladder) else ladder.find(str(name)), select(device)
    last = target.rungs[-1].number
    if to is not None and not 0 <= to <= last:
        raise ArgumentError(
            "no such rung to stop at", where=target.op.name, got=str(to), allowed=f"0 to {last}"
        )
    result = climb_rungs(target, device=chosen, to=to, progress=progress)
    if not chosen.real:
        result = with_recorded(target, result)
    if record is not None:
        records.append(Path(record), result)
    return result
