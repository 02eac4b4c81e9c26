"""One launch under observation: the memory in which an observer's code leaves its results."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.layout import ContextFields, SlotFields, WorkerFields
from weft.device.sim.observe import Watching

if TYPE_CHECKING:
    from weft.device.base import Allocation, LaunchConfig
    from weft.device.sim.code_info import CodeInfo
    from weft.device.sim.run.arena import Arena
    from weft.device.sim.run.heap import Heap

Bytes = NDArray[np.uint8]
LINE = 128
"""Bytes that two host threads should not share."""
HUGE_PAGE = 2 << 20


class Observation:
    """One launch under observation; `heap` is there when kernels of the module allocate."""

    def __init__(
        self, code: CodeInfo, config: LaunchConfig, memory: Sequence[Allocation], arena: Arena
    ) -> None:
        self.code, self.config, self.memory = code, config, memory
        self.workers, self.slots = len(arena.workers), arena.slots
        self.error: BaseException | None = None
        self.heap: Heap | None = None
        self._arena = arena
        # Compiled code holds bare addresses, so something must keep the memory alive.
        self._kept: list[Bytes] = []

    @property
    def notes(self) -> Mapping[str, Any]:
        """The data that the watcher has stored with the code."""
        return self.code.notes

    @property
    def cluster(self) -> tuple[int, int, int]:
        """The blocks of a cluster; (1, 1, 1) where there are none."""
        at = ContextFields.CLUSTER_X // 4
        x, y, z = self._arena.context.view(np.int32)[at : at + 3].tolist()
        return x, y, z

    def parameter(self, offset: int) -> int:
        """The 64 bits of the parameter block at a byte offset: a pointer, mostly."""
        start = int(self._arena.context[ContextFields.PARAMS // 8])
        return ctypes.c_uint64.from_address(start + offset).value

    def shared_memory(self) -> list[int]:
        """The start of the shared memory of each slot of each worker."""
        starts = self.slot_addresses()
        return [ctypes.c_int64.from_address(x + SlotFields.SHARED).value for x in starts]

    def slot_addresses(self) -> list[int]:
        """The start of each slot of each worker."""
        slots = [self._arena.slot(w, i) for w in range(self.workers) for i in range(self.slots)]
        return [int(slot.ctypes.data) for slot in slots]

    def worker_field(self, offset: int) -> int:
        """A field of the first host thread: see `WorkerFields`."""
        return self._arena.workers[0][offset]

    def for_launch(self, memory: Bytes) -> None:
        """Memory that all workers share: its address is in `ContextFields.OBSERVER`."""
        self._kept.append(memory)
        self._arena.context[ContextFields.OBSERVER // 8] = memory.ctypes.data

    def for_workers(self, nbytes: int) -> list[Bytes]:
        """Zeroed memory for each host thread: its address is in `WorkerFields.OBSERVER`."""
        out = [zeroed(nbytes) for _ in range(self.workers)]
        for worker, memory in zip(self._arena.workers, out, strict=True):
            worker.fields[WorkerFields.OBSERVER // 8] = memory.ctypes.data
        self._kept += out
        return out

    def for_slots(self, nbytes: int) -> list[Bytes]:
        """Zeroed memory for each resident block: its address is in `SlotFields.OBSERVER`."""
        out = []
        for worker in range(self.workers):
            for index in range(self.slots):
                memory = zeroed(nbytes)
                at = ctypes.c_int64.from_buffer(
                    self._arena.slot(worker, index).data.cast("B"), SlotFields.OBSERVER
                )
                at.value = memory.ctypes.data
                out.append(memory)
        self._kept += out
        return out


def zeroed(nbytes: int) -> Bytes:
    """Zeroed bytes on a line of their own, so that workers do not share one."""
    memory, align = _huge_pages(nbytes) if nbytes >= HUGE_PAGE else None, HUGE_PAGE
    if memory is None:
        memory, align = np.zeros(nbytes + LINE, np.uint8), LINE
    start = -memory.ctypes.data % align
    return memory[start : start + nbytes]


def _huge_pages(nbytes: int) -> Bytes | None:
    """Zeroed memory with so many bytes in huge pages; None where the system gives none.

    A table is read before it is written, so each small page of it would come in twice.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        # From the first huge page on, with the whole of the last one.
        whole = (-(-nbytes // HUGE_PAGE) + 1) * HUGE_PAGE
        memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # or too little memory, which the caller's next attempt reports
        return None
    return np.frombuffer(memory, np.uint8)


class Observer(Watching, Protocol):
    """An observer of launches.

    One with a true attribute `alone` has its launches run on one host thread, in the same order
    every time.
    """

    def begin(self, observation: Observation) -> None:
        """Before a launch: reserves memory."""

    def end(self, observation: Observation) -> None:
        """After it, also when it has failed (`observation.error`)."""
