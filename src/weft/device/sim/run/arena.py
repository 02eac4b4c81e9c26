"""The memory of a launch: context, tables, workers, slots; made once and used again."""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.device.sim.code_info import CodeInfo
from weft.device.sim.layout import (
    CLUSTER_SHIFT,
    TILE_SHIFT,
    ContextFields,
    ScheduleFields,
    Site,
    SlotFields,
    WorkerFields,
)
from weft.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE = 4096
WORKSPACE = 128
"""Bytes in which cooperative groups keep the barrier of a grid; zero when a launch begins."""

ROW = 32
"""Bytes of a row of the allocation table: address, size, writable, unused."""

_CONTEXT = struct.Struct(f"<20q4i{ContextFields.SIZE - 176 + WORKSPACE}x")
"""All fields of a context in their order; the rest of it, and the workspace behind it, zero."""


UNWRITTEN = 0xFF
"""The bytes of shared memory before a launch under a schedule: NaN in every floating format."""

SHARED_ALIGN = 1024
"""The alignment of a block's shared memory: the largest that layouts of bulk copies require."""


_NORESERVE = 0x4000 if sys.platform == "linux" else 0
"""MAP_NORESERVE, which the module of older versions of Python does not name."""
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE


def _windows(count: int, shift: int) -> NDArray[np.uint8]:
    """A row of `1 << shift` bytes per block; each begins at a multiple of its size.

    Pages that are never touched cost nothing.
    """
    size = 1 << shift
    try:
        memory = np.frombuffer(mmap.mmap(-1, (count + 1) * size, _PRIVATE), np.uint8)
    except OSError as error:
        raise MemoryError(f"{(count + 1) * size} bytes of addresses for shared memory") from error
    skipped = -int(memory.ctypes.data) % size
    return memory[skipped : skipped + count * size].reshape(count, size)


def _up(nbytes: int, align: int) -> int:
    return -(-nbytes // align) * align


def _aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Memory that starts on a page; pages that are never touched cost nothing."""
    array = np.empty(nbytes + PAGE, np.uint8)
    start = int(array.ctypes.data)
    base = _up(start, PAGE)
    return array[base - start : base - start + nbytes], base


@dataclass(slots=True)
class WorkerMemory:
    """The memory of one host thread: its fields, followed by the records of each access."""

    fields: NDArray[np.int64]
    sites: NDArray[np.int64]
    block: NDArray[np.uint8]
    address: int
    far: NDArray[np.uint8] | None = None
    """Shared memory of each block, where it lies in a window of its own."""

    def __getitem__(self, at: int) -> int:
        return int(self.fields[at // 8])


class Arena:
    """All memory for one launch at a time of one compiled kernel."""

    def __init__(
        self,
        info: CodeInfo,
        *,
        workers: int,
        slots: int,
        shared_bytes: int,
        param_bytes: int,
        rows: int,
    ) -> None:
        self.info, self.slots, self.shared_bytes = info, slots, shared_bytes
        self._params = ContextFields.SIZE + WORKSPACE
        self._param_bytes = max(param_bytes, 1)
        self._table = -(-(self._params + param_bytes + 8) // ROW) * ROW
        head, self.address = _aligned(self._table + rows * ROW)
        self._head = head.data
        self.context = head[: ContextFields.SIZE].view(np.int64)
        self.table = head[self._table :].view(np.int64).reshape(rows, 4)
        self.workspace = (self.address + ContextFields.SIZE, WORKSPACE, 1, 0)
        self.workers = [self._worker(i) for i in range(workers)]
        self.verdict = ""
        self.skipped = 0
        """Blocks that do not run, of those before the next one."""

    def _worker(self, number: int) -> WorkerMemory:
        info, n = self.info, self.slots
        shared = self._shared_stride
        local = _up(max(info.local_bytes * 32 * info.warps, 1), 256)
        heads = _up(n * info.slot_bytes, SHARED_ALIGN)
        far = None
        if info.clusters or info.warpgroups:
            far, shared = _windows(n, CLUSTER_SHIFT if info.clusters else TILE_SHIFT), 0
        block, base = _aligned(heads + n * (shared + local))
        memory = np.zeros(WorkerFields.SIZE // 8 + Site.SIZE // 8 * max(1, info.sites), np.int64)
        fields, sites = memory[: WorkerFields.SIZE // 8], memory[WorkerFields.SIZE // 8 :]
        address = int(memory.ctypes.data)
        fields[WorkerFields.SITES // 8] = address + WorkerFields.SIZE
        fields[WorkerFields.SLOTS // 8] = base
        fields[WorkerFields.SLOT_COUNT // 8] = n
        fields[WorkerFields.ID // 8] = number
        after = base + heads
        near, step = (after, shared) if far is None else (int(far.ctypes.data), far.shape[1])
        view = block.view(np.int64)
        for i in range(n):
            head = i * info.slot_bytes // 8
            view[head + SlotFields.STATE // 8] = 0
            view[head + SlotFields.SHARED // 8] = near + i * step
            view[head + SlotFields.SHARED_BYTES // 8] = self.shared_bytes
            view[head + SlotFields.LOCAL // 8] = after + n * shared + i * local
        return WorkerMemory(fields, sites, block, address, far)

    @property
    def _shared_stride(self) -> int:
        """Bytes from the shared memory of a slot to that of the next."""
        return _up(max(self.shared_bytes, 1), SHARED_ALIGN)

    def begin(
        self,
        grid: tuple[int, int, int],
        dynamic_shared: int,
        params: bytes,
        rows: Sequence[int],
        symbols: int,
        const: tuple[int, int],
        host: int,
        cooperative: bool = True,
        textures: int = 0,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Write the inputs of a launch; `rows` are the numbers of the allocation table.

        A successful launch has left its slots free and no error: nothing else needs to be reset.
        """
        self.skipped = 0
        address, params_at, table_at = self.address, self._params, self._table
        x, y, z = grid
        # A null workspace makes the grid barrier of cooperative groups trap.
        _CONTEXT.pack_into(
            self._head,
            0,
            0,
            x * y * z,
            x,
            y,
            z,
            0,  # the next block, all, the grid, stop
            address + table_at,
            len(rows) // 4,
            address + params_at,
            symbols,
            const[0],
            dynamic_shared,
            host,
            (address + ContextFields.SIZE) * cooperative,
            0,  # workspace, grid id
            self._param_bytes,
            const[1],
            0,
            0,
            textures,  # no observer, no epoch yet
            *(cluster or (1, 1, 1)),
            cluster is not None,
        )
        self._head[params_at : params_at + len(params)] = params
        struct.pack_into(f"<{len(rows)}q", self._head, table_at, *rows)
        # The windows of the sites too: they are allocations of the last launch.
        size = WorkerFields.SIZE - WorkerFields.ERROR + Site.SIZE * max(1, self.info.sites)
        for worker in self.workers:
            ctypes.memset(worker.address + WorkerFields.ERROR, 0, size)

    def limit(self, blocks: range) -> None:
        """Have the launch that `begin` has prepared run these blocks only."""
        ended = sum(int(w.fields[WorkerFields.PROGRESS // 8]) for w in self.workers)
        self.skipped = blocks.start - ended
        self.context[ContextFields.NEXT // 8] = blocks.start
        self.context[ContextFields.TOTAL // 8] = blocks.stop

    def follow(self, schedule: Mapping[int, int], resident: int) -> None:
        """Give the launch that `begin` has prepared a schedule, and this number of slots."""
        self._schedule = np.zeros(ScheduleFields.SIZE // 8, np.int64)
        for field, value in schedule.items():
            self._schedule[field // 8] = value
        self.context[ContextFields.SCHEDULE // 8] = self._schedule.ctypes.data
        heads = _up(self.slots * self.info.slot_bytes, SHARED_ALIGN)
        for worker in self.workers:
            worker.fields[WorkerFields.SLOT_COUNT // 8] = resident
            # What shared memory holds at first must not depend on earlier launches.
            if worker.far is None:
                worker.block[heads : heads + resident * self._shared_stride] = UNWRITTEN
            else:
                worker.far[:resident, : self.shared_bytes] = UNWRITTEN

    def slot(self, worker: int, index: int) -> NDArray[np.int32]:
        """A slot's memory as 32-bit words."""
        start = index * self.info.slot_bytes
        return self.workers[worker].block[start : start + self.info.slot_bytes].view(np.int32)
