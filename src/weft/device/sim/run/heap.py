"""Device `malloc` and `free`: one block of host memory, shared out first fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from weft.device.sim.run import initialised
from weft.errors import InvalidFree

ALIGN = 16
GAP = 16
"""Unallocated bytes between allocations, so that an overrun is detected."""


class HeapBlock(NamedTuple):
    """Allocations of one size: the first one's address, its thread and its instruction."""

    address: int
    nbytes: int
    site: int
    place: str
    times: int = 1


class Heap:
    """The allocations of a module's kernels, across launches."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.live: dict[int, int] = {}
        self.made: dict[int, HeapBlock] = {}
        self.listeners: list[Callable[[int, int], None]] = []
        """Called with the address and the size of each new allocation."""
        self._block = np.empty(0, np.uint8)
        self._free: list[tuple[int, int]] = []

    @property
    def most(self) -> int:
        """The maximum number of simultaneous allocations."""
        return self.nbytes // (ALIGN + GAP)

    @property
    def start(self) -> int:
        """The start of its memory, which is allocated on first use."""
        if not self._block.size:
            self._block = np.empty(self.nbytes + ALIGN, np.uint8)
            self._free = [(-(-self._block.ctypes.data // ALIGN) * ALIGN, self.nbytes)]
        return -(-self._block.ctypes.data // ALIGN) * ALIGN

    def malloc(self, size: int, site: int = -1, place: str = "") -> int:
        """An address, or 0 when there is no room; `site` and `place` identify the caller."""
        need = -(-size // ALIGN) * ALIGN + GAP
        if size <= 0 or need > self.nbytes or not self.start:
            return 0
        for i, (start, room) in enumerate(self._free):
            if room >= need:
                self._free[i : i + 1] = [(start + need, room - need)] if room > need else []
                self.live[start] = size
                self.made[start] = HeapBlock(start, size, site, place)
                # The bytes written by the previous owner do not count.
                initialised.emptied(start, size)
                for listener in self.listeners:
                    listener(start, size)
                return start
        return 0

    def free(self, address: int) -> None:
        """Return the allocation to the heap; raise for a pointer that was never allocated."""
        size = self.live.pop(address, None)
        self.made.pop(address, None)
        if size is None:
            raise InvalidFree(
                "free of a pointer that is not a live allocation",
                got=f"{address:#x}",
                allowed="what the device's malloc or new returned, once",
                next="look for a second free, or for a pointer into the middle of an allocation",
            )
        start, room = address, -(-size // ALIGN) * ALIGN + GAP
        i = bisect_left(self._free, (start, 0))
        # Free ranges that touch become one, so that a large allocation fits again.
        if i < len(self._free) and self._free[i][0] == start + room:
            room += self._free.pop(i)[1]
        if i and sum(self._free[i - 1]) == start:
            i -= 1
            start, before = self._free.pop(i)
            room += before
        self._free.insert(i, (start, room))
