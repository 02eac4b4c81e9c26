"""Prefetches what an instruction is likely to load next, for the next block, warp or iteration.

A GPU hides the latency of memory by running other warps meanwhile. Here a warp waits for its loads,
and the host prefetches only within a page. A load therefore notes its address, takes the distance
from its last one, and prefetches what is as far ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.ir import Builder, Val

LINE = 64
"""Bytes that a prefetch brings, at least."""
MOST = 4
"""Prefetches of one instruction: with more lines, lanes are far apart and take long anyway."""


def ahead(b: Builder, last: Callable[[], Val], starts: Sequence[Val], nbytes: int) -> None:
    """Ranges of `nbytes` are loaded at `starts`; `last` is where the instruction notes them."""
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
