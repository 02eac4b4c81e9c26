"""The emitter's interface for instructions that access memory."""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.access import MemoryAccess
from weft.device.sim.memory.timing import Timing
from weft.device.sim.memory.windows import SiteWindows
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Errors, InstructionOperands, LaneArrays, Located, Masks
from weft.ir import Val
from weft.ptx.model import Instruction


class Delays(Protocol):
    """Stores that a schedule delays: see `memory.delayed_stores`."""

    def before(self, ins: Instruction) -> None:
        """Land the stores that come before an instruction which orders them."""

    def meet(self, access: MemoryAccess) -> None:
        """Land stores whose targets the same threads access."""

    def store(self, access: MemoryAccess, values: list[Val]) -> None:
        """Record a store that is delayed."""

    def are_pending(self) -> Val:
        """True at run time if stores have been delayed."""


class Accessing(InstructionOperands, Masks, Located, Errors, Protocol):
    """Addresses from operands, checked for the lanes that execute, and shown to the observer."""

    timing: Timing
    windows: SiteWindows
    watch: Watcher
    delays: Delays | None

    @property
    def memory(self) -> LaneArrays: ...
