"""Prefetches what an instruction is likely to load next, for the next block, warp or iteration.

A GPU hides the latency of memory by running other warps meanwhile. Here a warp waits for its loads,
and the host prefetches only within a page. A load therefore records its address, takes the distance
from the previous one, and prefetches at the same distance ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.ir import Builder, Val

LINE = 64
"""Bytes that a prefetch brings, at least."""
MOST = 4
"""The limit on prefetches of one instruction: with more lines, lanes are slow anyway."""


def ahead(b: Builder, last: Callable[[], Val], starts: Sequence[Val], nbytes: int) -> None:
    """Prefetch after ranges of `nbytes` at `starts`; `last` has the previous addresses."""
    if len(starts) * -(-nbytes // LINE) > MOST:
        return
    place = last()
    step = starts[0] - b.load("i64", 0, place, 8)
    b.store(starts[0], place, 8)
    for start in starts:
        there = start + step
        for at in range(0, nbytes, LINE):
            line = there + at if at else there
            b.prefetch(b.pure("ptr", 0, f"inttoptr {line.typed} to ptr"))
