"""Lay out a block's transforms in shared memory with the fewest bank conflicts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from weft.ops.families.fft.lengths import Stages

PADS = (0, 4, 5, 8, 10, 12, 16, 32)
"""One free element after so many; 0: none."""
GAPS = (0, 1, 2, 4, 8)
"""Free elements after a transform, where a warp has several."""
_BANKS, _LANES = 16, 16
"""Banks of 8 bytes, and the lanes of which accesses of 8 bytes are one transaction."""


class Room(NamedTuple):
    """The layout of `columns` transforms; `apart`: one after another, else interleaved."""

    n: int
    columns: int
    pad: int
    apart: bool
    gap: int = 0

    def at(self, i: int, c: int) -> int:
        p = i + i // self.pad if self.pad else i
        return c * self.pitch + p if self.apart else p * self.columns + c

    @property
    def pitch(self) -> int:
        return self.n + self.gap + ((self.n - 1) // self.pad if self.pad else 0)

    @property
    def bytes(self) -> int:
        return 8 * self.pitch * self.columns


@functools.cache
def room(stages: Stages, columns: int, into: bool, out: bool) -> Room:
    """The layout with the fewest conflicts.

    into, out  whether adjacent threads have adjacent transforms before and after the first stage
    """
    layouts = [
        Room(stages.n, columns, pad, apart, gap)
        for pad in PADS
        for apart in ((True, False) if columns > 1 else (True,))
        for gap in (GAPS if apart and columns > 1 and stages.threads < 32 else (0,))
    ]
    return min(layouts, key=lambda made: (_transactions(stages, made, into, out), made.bytes))


def _transactions(s: Stages, room: Room, into: bool, out: bool) -> int:
    """Shared memory transactions of one warp in all exchanges; stockham.cuh has the indices."""
    total, p = 0, 1
    for i, (r, following) in enumerate(zip(s.radices, s.radices[1:], strict=False)):
        writes = _lanes(s, room.columns, into if i == 0 else out, s.n // r)
        reads = _lanes(s, room.columns, out, s.n // following)
        for k in range(r):
            total += _conflicts(room, [(j // p * p * r + j % p + k * p, c) for j, c in writes])
        for k in range(following):
            total += _conflicts(room, [(j + k * (s.n // following), c) for j, c in reads])
        p *= r
    return total


def _lanes(s: Stages, columns: int, by_column: bool, count: int) -> list[tuple[int, int]]:
    """(butterfly, transform) of the lanes of the first warp that have one of `count`."""
    lanes = range(min(32, s.threads * columns))
    if by_column:
        places = [(i // columns, i % columns) for i in lanes]
    else:
        places = [(i % s.threads, i // s.threads) for i in lanes]
    return [(t, c) for t, c in places if t < count]


def _conflicts(room: Room, elements: Sequence[tuple[int, int]]) -> int:
    """Transactions of one access to (element, transform) by each lane."""
    total = 0
    for start in range(0, len(elements), _LANES):
        banks: dict[int, set[int]] = {}
        for i, c in elements[start : start + _LANES]:
            at = room.at(i, c)
            banks.setdefault(at % _BANKS, set()).add(at)
        total += max(map(len, banks.values()))
    return total
