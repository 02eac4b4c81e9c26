"""The emitter's interface for instructions that access memory."""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.memory.timing import Timing
from weft.device.sim.memory.windows import SiteWindows
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Errors, InstructionOperands, LaneArrays, Located, Masks


class Accessing(InstructionOperands, Masks, Located, Errors, Protocol):
    """Addresses from operands, checked for the lanes that execute, and shown to the observer."""

    timing: Timing
    windows: SiteWindows
    watch: Watcher

    @property
    def memory(self) -> LaneArrays: ...
