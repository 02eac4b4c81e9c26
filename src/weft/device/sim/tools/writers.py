"""Records which threads wrote the contents of some arrays, and which threads read global memory.

The course tests whether the threads of a grid share the work, and whether kernels made the results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.access import MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import ContextFields, SlotFields
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.run.observation import Observation
from weft.device.sim.tools.touches import TouchWatcher
from weft.ir import Builder, Val

Place = tuple[int, int]
"""The number of a block in its grid, and of a thread in its block."""
_READS, _WRITES = 1, 2
# The head has six words: blocks along x and y, threads of a block, the address of `readers`, the
# number of arrays, whether one was written. Each array then has three: its address, its bytes, the
# address of its table.
_HEAD, _ROW = 48, 24
_WRITTEN = 5
"""The word of the head that is set where an array was written."""
_ENTRY = 8
"""Bytes of a table for each byte of its array at which a write began: the block + 1, the thread."""


class Writers:
    """Watches launches that may write arrays, each given by its address and its bytes.

    One observer watches several launches, one after the other; a later write counts.
    """

    key = "writers"

    def __init__(self, arrays: Sequence[tuple[int, int]]) -> None:
        self._arrays = tuple(arrays)
        self._tables = [np.zeros((nbytes, _ENTRY // 4), np.int32) for _, nbytes in arrays]
        self._readers: list[tuple[NDArray[np.uint8], int]] = []
        self._heads: list[NDArray[np.int64]] = []

    def watcher(self, e: Watched) -> Watcher:
        return _WriterWatcher(e)

    def begin(self, observation: Observation) -> None:
        grid, threads = observation.config.grid, math.prod(observation.config.block)
        readers = np.zeros(math.prod(grid) * threads, np.uint8)
        self._readers.append((readers, threads))
        head = [grid[0], grid[1], threads, readers.ctypes.data, len(self._arrays), 0]
        for (address, nbytes), table in zip(self._arrays, self._tables, strict=True):
            head += [address, nbytes, table.ctypes.data]
        self._heads.append(np.array(head, np.int64))
        observation.for_launch(self._heads[-1].view(np.uint8))

    def end(self, observation: Observation) -> None:
        """Do nothing: the code has filled the tables."""

    def readers(self) -> set[Place]:
        """The threads that read global memory."""
        return {
            divmod(int(at), threads)
            for seen, threads in self._readers
            for at in np.flatnonzero(seen)
        }

    def writers(self) -> set[Place]:
        """The threads that wrote the present contents of the arrays, as far as kernels did."""
        return {
            (int(block) - 1, int(thread))
            for table in self._tables
            for block, thread in table[table[:, 0] > 0]
        }

    def writing_launches(self) -> int:
        """The number of launches that wrote at least one of the arrays."""
        return sum(bool(head[_WRITTEN]) for head in self._heads)


class _WriterWatcher(TouchWatcher):
    name = "note_writers"
    reads_too = True

    def number(self, access: MemoryAccess) -> int:
        return _READS * access.reads | _WRITES * access.writes

    def body(self, b: Builder, args: list[Val]) -> None:
        context, _, slot, addresses, _, lanes, does, first = args
        head = b.load("ptr", 0, b.at(context, ContextFields.OBSERVER))
        across, down, threads = (b.load("i64", 0, b.at(head, 8 * i), 8) for i in range(3))
        x, y, z = (
            b.load("i32", 0, b.at(slot, axis)).zext("i64")
            for axis in (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)
        )
        block = (z * down + y) * across + x

        def look(lane: Val) -> None:
            thread = (first + lane).zext("i64")
            with b.when((does & _READS).ne(0)):
                readers = b.load("ptr", 0, b.at(head, 24))
                b.store(b.integer("i8", 1), b.at(readers, block * threads + thread), 1)
            with b.when((does & _WRITES).ne(0)), b.loop(b.load("i32", 0, b.at(head, 32))) as i:
                row = b.at(head, i.zext("i64") * _ROW + _HEAD)
                at = b.load("i64", 0, b.at(addresses, lane.zext("i64") << 3), 8) - b.load(
                    "i64", 0, row, 8
                )
                with b.when(at.ult(b.load("i64", 0, b.at(row, 8), 8))):
                    entry = b.at(b.load("ptr", 0, b.at(row, 16)), at * _ENTRY)
                    b.store(block.trunc("i32") + 1, entry, 4)
                    b.store(thread.trunc("i32"), b.at(entry, 4), 4)
                    b.store(b.integer("i64", 1), b.at(head, 8 * _WRITTEN), 8)

        each_lane(b, lanes, look)
