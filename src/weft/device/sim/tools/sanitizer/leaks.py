"""Leaks: memory of the device's heap that a launch has allocated and that no pointer reaches."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.device.base import Allocation
from weft.device.sim.run import initialised
from weft.device.sim.run.heap import Heap, HeapBlock

HEAP = "the device's heap"


def span(heap: Heap) -> Allocation:
    """The whole heap as memory; from now on its written bytes are recorded."""
    start = heap.start
    if not initialised.known(start):
        initialised.register(start, heap.nbytes)
        weakref.finalize(heap, initialised.forget, start)
        for address, size in heap.live.items():  # of launches that were not observed
            initialised.filled(address, size)
    return Allocation(start, heap.nbytes, True, HEAP)


def leaked(heap: Heap, before: set[int], memory: Sequence[Allocation]) -> list[HeapBlock]:
    """New blocks that nothing alive points into."""
    new = {a: b for a, b in heap.made.items() if a not in before and b.site >= 0}
    if not new:
        return []
    words = [_words(a.address, a.nbytes) for a in memory if a.name not in (HEAP, "heap block")]
    reached = _pointed(new, words)
    # A block that is reached may hold the only pointer to another.
    while True:
        inside = [_words(a, new[a].nbytes) for a in reached]
        more = _pointed(new, inside) | reached
        if more == reached:
            break
        reached = more
    groups: dict[int, HeapBlock] = {}
    for address, block in new.items():
        if address not in reached:
            old = groups.get(block.site)
            groups[block.site] = block if old is None else old._replace(times=old.times + 1)
    return list(groups.values())


def _pointed(blocks: dict[int, HeapBlock], words: Sequence[NDArray[np.int64]]) -> set[int]:
    """Blocks that some word points into."""
    starts = np.array(sorted(blocks), np.int64)
    ends = starts + [blocks[int(a)].nbytes for a in starts]
    reachable: set[int] = set()
    for w in words:
        at = np.searchsorted(starts, w, side="right") - 1
        hit = (at >= 0) & (w < ends[at])
        reachable.update(int(starts[i]) for i in np.unique(at[hit]))
    return reachable


def _words(address: int, nbytes: int) -> NDArray[np.int64]:
    """Memory as 64-bit words, if it is aligned."""
    first = -(-address // 8) * 8
    count = (address + nbytes - first) // 8
    if count <= 0:
        return np.zeros(0, np.int64)
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(first))
