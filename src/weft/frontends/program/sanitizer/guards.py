"""Computes the pages that the host must not access while work is in flight."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.tools.sanitizer.extents import Extents
from weft.frontends.program.sanitizer.touches import Touched

PAGE = mmap.PAGESIZE
_FREE, _READABLE, _CLOSED = range(3)


def rows(start: int, nbytes: int, touched: Iterable[Touched]) -> list[tuple[int, int, bool]]:
    """(start, end, readable) for the pages of one allocation that this work accesses."""
    count = -(-nbytes // PAGE)
    level = np.full(count + 1, _FREE)
    for one in touched:
        level[:-1][_covered(one.reads, start, count) & (level[:-1] < _READABLE)] = _READABLE
        level[:-1][_covered(one.writes, start, count)] = _CLOSED
    edges = np.flatnonzero(np.diff(level, prepend=_FREE))
    return [
        (start + int(a) * PAGE, start + int(b) * PAGE, bool(level[a] == _READABLE))
        for a, b in pairwise(edges)
        if level[a] != _FREE
    ]


def _covered(extents: Extents, start: int, count: int) -> NDArray[np.bool_]:
    """Flags of the pages of an allocation with accessed bytes."""
    inside = (extents.end > start) & (extents.start < start + count * PAGE)
    low = np.maximum(extents.start[inside] - start, 0) // PAGE
    high = np.minimum((extents.end[inside] - start - 1) // PAGE, count - 1)
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high + 1, -1)
    return np.cumsum(steps[:-1]) > 0
