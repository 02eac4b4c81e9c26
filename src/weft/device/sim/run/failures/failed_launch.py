"""A launch that did not finish: its blocks, warps and instructions, as the arena has left them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.layout import BUSY, ContextFields, FrameFields, SlotFields, WorkerFields
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.failures.lines import line_of
from weft.ptx.model import Instruction, Label
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.device.base import Allocation, LaunchConfig
    from weft.device.sim.run.module import SimModule

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Site:
    """The place of a fault: the worker that has found it, its instruction, block and thread."""

    worker: int
    ins: Instruction | None
    block: Index
    thread: Index

    @property
    def line(self) -> str:
        return line_of(self.ins)

    def __str__(self) -> str:
        return f"block {self.block}, thread {self.thread}"


class FailedLaunch:
    """The kernel, what it was launched with, and the state of its workers."""

    def __init__(
        self,
        module: SimModule,
        entry: str,
        config: LaunchConfig,
        arena: Arena,
        memory: Sequence[Allocation],
    ) -> None:
        self.module, self.entry, self.config = module, entry, config
        self.arena, self.memory = arena, memory
        names = {v: k for k, v in module.ptx.entries.items()}
        self.name = names.get(entry, entry)

    @functools.cached_property
    def program(self) -> KernelProgram:
        m = self.module
        return prepare(m.module, m.function(self.entry), self.config.block)

    def instruction(self, site: int) -> Instruction | None:
        for ins in self.program.function.body:
            if not isinstance(ins, Label) and ins.index == site:
                return ins
        return None

    def block(self, worker: int, slot: int) -> tuple[int, int, int]:
        words = self.arena.slot(worker, slot)
        x, y, z = (
            int(words[k // 4]) for k in (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)
        )
        return x, y, z

    def thread(self, warp: int, lane: int) -> tuple[int, int, int]:
        n = 32 * warp + lane
        x, y, _ = self.config.block
        return n % x, n // x % y, n // (x * y)

    def frame(self, worker: int, slot: int, warp: int) -> dict[str, int]:
        info = self.arena.info
        words = self.arena.slot(worker, slot)
        at = (SlotFields.FRAMES + warp * info.frame_bytes) // 4
        fields = {
            "state": FrameFields.STATE, "status": FrameFields.STATUS, "site": FrameFields.SITE,
            "mask": FrameFields.MASK, "live": FrameFields.LIVE,
        }  # fmt: skip
        return {k: int(words[at + v // 4]) for k, v in fields.items()}

    def busy_slots(self) -> list[tuple[int, int]]:
        return [
            (w, i)
            for w in range(len(self.arena.workers))
            for i in range(self.arena.slots)
            if self.arena.slot(w, i)[0] == BUSY
        ]

    @property
    def in_cluster(self) -> bool:
        return self.arena.info.clusters and self.blocks > 1

    @property
    def blocks(self) -> int:
        """The number of blocks of a cluster."""
        fields = (ContextFields.CLUSTER_X, ContextFields.CLUSTER_Y, ContextFields.CLUSTER_Z)
        words = self.arena.context.view("int32")
        return prod(int(words[at // 4]) for at in fields)

    def stuck_slots(self, worker: int) -> list[tuple[int, int]]:
        """The slots of the blocks that cannot run: one, or those of its cluster."""
        slot = self.arena.workers[worker][WorkerFields.ERROR_SLOT]
        if not self.arena.info.clusters:
            return [(worker, slot)]
        first = slot - slot % self.blocks
        group = [(worker, i) for i in range(first, first + self.blocks)]
        return [x for x in group if x in self.busy_slots()]

    def site(self, worker: int) -> Site:
        """The place of a worker's fault."""
        w = self.arena.workers[worker]
        block = self.block(worker, w[WorkerFields.ERROR_SLOT])
        thread = self.thread(w[WorkerFields.ERROR_WARP], w[WorkerFields.ERROR_LANE])
        return Site(worker, self.instruction(w[WorkerFields.ERROR_SITE]), block, thread)

    def shared_memory(self, worker: int) -> tuple[int, int]:
        """The address and the size of the shared memory of a faulty block."""
        slot = self.arena.workers[worker][WorkerFields.ERROR_SLOT]
        words = self.arena.slot(worker, slot).view("int64")
        return int(words[SlotFields.SHARED // 8]), int(words[SlotFields.SHARED_BYTES // 8])
