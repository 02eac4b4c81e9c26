"""Copies to the host of memory that was never written, and what is taken for padding.

Structures have bytes that no field covers, and rows of pitched memory end in bytes that no element
covers; both are copied with the rest, and that is no mistake. So a stretch of unwritten bytes is
reported when all that is copied is unwritten, or when the stretch is 16 bytes or longer and does
not recur at equal distances.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from weft.device.base import Allocation
from weft.device.sim.run import initialised

PATTERN, PATTERN_LIMIT = 0xCD, 64 << 20
"""The fill byte of new device memory, and the largest allocation that is filled."""
_PADDING = 16
"""Bytes; the largest alignment of CUDA's own types."""
_RECURS = 3


def note_fresh(memory: Sequence[Allocation]) -> None:
    """Record, before a launch, the words of device memory not written since their allocation."""
    for a in memory:
        if a.nbytes <= PATTERN_LIMIT:
            initialised.unless_changed(a.address, a.nbytes, PATTERN)


def unwritten(address: int, nbytes: int) -> int | None:
    """The first byte of a row of memory that is copied but was never written."""
    marks = initialised.marks(address, nbytes)
    if marks is None:
        return None
    begin = -address % 4
    count = (nbytes - begin) // 4
    if count <= 0:
        return None
    memory = (ctypes.c_uint32 * count).from_address(address + begin)
    marks = marks[bool(begin) :][:count]
    # Unmarked words may be written by host code: then they lost the fill pattern.
    missing = (marks == 0) & (np.ctypeslib.as_array(memory) == PATTERN * 0x01010101)
    edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
    first, size = edges[::2], edges[1::2] - edges[::2]
    if len(first) == 0:
        return None
    if size.sum() == count:
        return address
    steps = np.diff(first)
    recurs = len(first) >= _RECURS and (steps == steps[0]).all()
    gaps = first[(4 * size >= _PADDING) & (size > (size[0] if recurs else 0))]
    return address + begin + 4 * int(gaps[0]) if len(gaps) else None
