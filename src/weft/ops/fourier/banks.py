"""Lays out a block's transforms in shared memory with few bank conflicts, by counting them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from weft.ops.fourier.lengths import Stages

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
    """Shared memory transactions of one warp in all exchanges."""
    total, before = 0, 1
    for i, (r, following) in enumerate(zip(s.radices, s.radices[1:], strict=False)):
        writes, reads = (
            _lanes(s, room.columns, into if i == 0 else out),
            _lanes(s, room.columns, out),
        )
        for k in range(r):

            def written(j: int, k: int = k, r: int = r, before: int = before) -> int:
                return j // before * before * r + j % before + k * before

            total += _conflicts(room, writes, written, s.n // r)
        for k in range(following):

            def read(j: int, k: int = k, step: int = s.n // following) -> int:
                return j + k * step

            total += _conflicts(room, reads, read, s.n // following)
        before *= r
    return total


def _lanes(s: Stages, columns: int, by_column: bool) -> list[tuple[int, int]]:
    """(t, c) of the lanes of the first warp."""
    lanes = range(min(32, s.threads * columns))
    if by_column:
        return [(i // columns, i % columns) for i in lanes]
    return [(i % s.threads, i // s.threads) for i in lanes]


def _conflicts(
    room: Room, lanes: Sequence[tuple[int, int]], element: Callable[[int], int], count: int
) -> int:
    total = 0
    for half in _halves(lanes):
        banks: dict[int, set[int]] = {}
        for t, c in half:
            if t < count:
                at = room.at(element(t), c)
                banks.setdefault(at % _BANKS, set()).add(at)
        total += max(map(len, banks.values()), default=0)
    return total


def _halves(lanes: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    for start in range(0, len(lanes), _LANES):
        yield lanes[start : start + _LANES]
