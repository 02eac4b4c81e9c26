"""The memory of a launch: context, workers, slots; made once per kernel and used again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.compile import Facts
from weft.device.sim.layout import Context, Slot, Worker

PAGE = 4096


def _aligned(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Memory that starts on a page; pages nobody touches cost nothing."""
    array = np.empty(nbytes + PAGE, np.uint8)
    return array, -(-array.ctypes.data // PAGE) * PAGE


@dataclass(slots=True)
class WorkerMemory:
    """What one host thread works with."""

    fields: NDArray[np.int64]
    sites: NDArray[np.int64]
    block: NDArray[np.uint8]
    slots: int

    def __getitem__(self, at: int) -> int:
        return int(self.fields[at // 8])


class Arena:
    """All memory for one launch at a time of one compiled kernel."""

    def __init__(self, facts: Facts, workers: int, slots: int, shared_bytes: int) -> None:
        self.facts, self.slots, self.shared_bytes = facts, slots, shared_bytes
        self.context = np.zeros(Context.SIZE // 8, np.int64)
        self.workers = [self._worker(i) for i in range(workers)]
        self.verdict = ""

    def _worker(self, number: int) -> WorkerMemory:
        facts, n = self.facts, self.slots
        shared = -(-max(self.shared_bytes, 1) // 256) * 256
        local = -(-max(facts.local_bytes * 32 * facts.warps, 1) // 256) * 256
        block, base = _aligned(n * (facts.slot_bytes + shared + local))
        fields = np.zeros(Worker.SIZE // 8, np.int64)
        sites = np.zeros(2 * max(1, facts.sites), np.int64)
        fields[Worker.SITES // 8] = sites.ctypes.data
        fields[Worker.SLOTS // 8] = base
        fields[Worker.SLOT_COUNT // 8] = n
        fields[Worker.ID // 8] = number
        after = base + n * facts.slot_bytes
        view = block[base - block.ctypes.data :].view(np.int64)
        for i in range(n):
            head = i * facts.slot_bytes // 8
            view[head + Slot.STATE // 8] = 0
            view[head + Slot.SHARED // 8] = after + i * shared
            view[head + Slot.SHARED_BYTES // 8] = self.shared_bytes
            view[head + Slot.LOCAL // 8] = after + n * shared + i * local
        return WorkerMemory(fields, sites, block, base)

    def reset(self) -> None:
        """Forgets the last launch."""
        self.context[:] = 0
        self.verdict = ""
        for w in self.workers:
            w.sites[:] = 0
            w.fields[Worker.ERROR // 8 :] = 0
            view = w.block[w.slots - w.block.ctypes.data :]
            for i in range(self.slots):
                at = i * self.facts.slot_bytes
                view[at : at + 4] = 0

    def slot(self, worker: int, index: int) -> NDArray[np.int32]:
        """A slot's memory as 32-bit words."""
        w = self.workers[worker]
        start = w.slots - w.block.ctypes.data + index * self.facts.slot_bytes
        return w.block[start : start + self.facts.slot_bytes].view(np.int32)
