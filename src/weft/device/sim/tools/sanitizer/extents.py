"""The bytes that launches touch, taken from the sanitizer's records when a launch has ended.

A launch inside `collecting` leaves an `Extents` for its reads and one for its writes. They are
compared with those of other launches, copies and the host, which run at the same time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.tools.sanitizer.layout import LaunchState, Record

Words = NDArray[np.int64]
_ALL = 15
"""All bytes of a word of four."""
_OF_HOST = -1
"""The instruction index of an access that is not a kernel's."""


@dataclass(frozen=True, slots=True)
class Extents:
    """Sorted, disjoint ranges of words.

    start, end  addresses, multiples of four
    mask        which of the four bytes of each word
    strong      atomic or volatile
    index       the instruction of the kernel, or -1
    """

    start: Words
    end: Words
    mask: Words
    strong: NDArray[np.bool_]
    index: Words

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Overlap:
    """The first place that two extents share; instructions of both."""

    address: int
    index: int
    other: int


class Collected:
    """The bytes that one launch has touched; `ranges` is the memory of interest, None for all."""

    def __init__(self, ranges: Sequence[tuple[int, int]] | None) -> None:
        self.ranges = ranges
        self.reads, self.writes = nothing(), nothing()


_mine = threading.local()


@contextmanager
def collecting(ranges: Sequence[tuple[int, int]] | None) -> Iterator[Collected]:
    """Record the bytes of these ranges that the launch of this thread inside touches."""
    _mine.wanted = collected = Collected(ranges)
    try:
        yield collected
    finally:
        _mine.wanted = None


def wanted(low: int, high: int) -> bool:
    """Return whether a launch that begins now must record this memory."""
    collected: Collected | None = getattr(_mine, "wanted", None)
    if collected is None:
        return False
    ranges = collected.ranges
    return ranges is None or any(start < high and low < start + size for start, size in ranges)


def note(rows: Words, sites: Sequence[int]) -> None:
    """Record the end of a launch: `rows` are its regions with their records."""
    collected: Collected | None = getattr(_mine, "wanted", None)
    if collected is None:
        return
    regions = [
        row for row in rows if row[LaunchState.WRITERS // 8] and wanted(row[0], row[0] + row[1])
    ]
    collected.writes = _joined([_runs(row, LaunchState.WRITERS, sites) for row in regions])
    collected.reads = _joined([_runs(row, LaunchState.READERS, sites) for row in regions])


def nothing() -> Extents:
    """No bytes."""
    none = np.zeros(0, np.int64)
    return Extents(none, none, none, none.astype(bool), none)


def of_ranges(starts: Words, sizes: Words) -> Extents:
    """The bytes that a copy touches, for example rows of a box."""
    ends = starts + sizes
    low, high = starts & ~3, (ends + 3) & ~3
    one = high - low == 4
    first = _ALL << (starts & 3) & _ALL
    last = _ALL >> (-ends & 3)
    pieces = [
        (low, low + 4, np.where(one, first & last, first)),
        (low + 4, high - 4, np.full_like(low, _ALL)),
        (np.maximum(low + 4, high - 4), high, last),
    ]
    start, end, mask = (np.concatenate([p[i] for p in pieces]) for i in range(3))
    kept = np.flatnonzero(end > start)
    order = kept[np.argsort(start[kept], kind="stable")]
    return Extents(
        start[order], end[order], mask[order], np.zeros(len(order), bool),
        np.full(len(order), _OF_HOST, np.int64),
    )  # fmt: skip


def overlap(a: Extents, b: Extents) -> Overlap | None:
    """The bytes that both touch, unless both accesses are atomic or volatile."""
    if not len(a) or not len(b):
        return None
    # Ranges are sorted and disjoint, so those that overlap one are a slice.
    first = np.searchsorted(b.end, a.start, "right")
    after = np.searchsorted(b.start, a.end, "left")
    for i in np.flatnonzero(first < after):
        there = slice(first[i], after[i])
        meet = (a.mask[i] & b.mask[there]) != 0
        if a.strong[i]:
            meet &= ~b.strong[there]
        for j in np.flatnonzero(meet)[:1] + first[i]:
            address = int(max(a.start[i], b.start[j]))
            return Overlap(address, int(a.index[i]), int(b.index[j]))
    return None


def at(extents: Extents, address: int) -> int | None:
    """The range that contains this byte."""
    first = int(np.searchsorted(extents.end, address, "right"))
    after = int(np.searchsorted(extents.start, address, "right"))
    there = (i for i in range(first, after) if int(extents.mask[i]) >> (address & 3) & 1)
    return next(there, None)


def _runs(row: Words, plane: int, sites: Sequence[int]) -> Extents:
    """Join neighbouring words that the same instruction touched to one range."""
    low, count = int(row[0]), int(row[1]) // 4
    memory = (ctypes.c_int64 * count).from_address(int(row[plane // 8]))
    key = np.ctypeslib.as_array(memory) & (Record.SITE | Record.ALL_BYTES)
    edges = np.flatnonzero(np.diff(key, prepend=0, append=0))
    first, key = edges[:-1], key[edges[:-1]]
    used = key != 0
    first, last, key = first[used], edges[1:][used], key[used]
    table = np.array([_OF_HOST, *sites], np.int64)
    number = np.minimum(key & Record.SITES, len(sites))
    return Extents(
        low + 4 * first, low + 4 * last, key >> Record.BYTES & _ALL, key & Record.STRONG != 0,
        table[number],
    )  # fmt: skip


def _joined(parts: Sequence[Extents]) -> Extents:
    """Concatenate the ranges of regions, which are sorted and disjoint."""
    if not parts:
        return nothing()
    names = Extents.__slots__
    return Extents(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))
