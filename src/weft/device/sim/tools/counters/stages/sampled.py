"""Samples and the events of stages, in kernels whose copies report to mbarriers.

Other kernels have watchers without these methods: code for an event that no tool watches may be
simpler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.device.sim.access import MemoryAccess
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters.sample_watcher import SampleWatcher
from weft.device.sim.tools.counters.stages.watcher import StageWatcher
from weft.device.sim.tools.counters.trace_watcher import TraceWatcher
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.model import Instruction


class SampleStages(SampleWatcher):
    """Lets a watcher of stages see each event, too."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self._stages = StageWatcher(e)

    def notes(self) -> Mapping[str, Any]:
        return {**super().notes(), **self._stages.notes()}

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        super().started(b, context, worker, slot)
        self._stages.started(b, context, worker, slot)

    def block(self, block: BasicBlock) -> None:
        super().block(block)
        self._stages.block(block)

    def access(self, access: MemoryAccess) -> None:
        super().access(access)
        self._stages.access(access)

    def instruction(self, ins: Instruction) -> None:
        super().instruction(ins)
        self._stages.instruction(ins)

    def product(self, ins: Instruction, left: Val, right: Val) -> None:
        super().product(ins, left, right)
        self._stages.product(ins, left, right)

    def tested(self, ins: Instruction, over: Val) -> None:
        super().tested(ins, over)
        self._stages.tested(ins, over)

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        self._stages.barrier(number, count, lanes)

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        self._stages.released(b, slot, number)

    def cluster_arrive(self, lanes: Val) -> None:
        self._stages.cluster_arrive(lanes)

    def cluster_passed(self) -> None:
        self._stages.cluster_passed()


class TraceStages(SampleStages, TraceWatcher):
    """The same of a trace."""
