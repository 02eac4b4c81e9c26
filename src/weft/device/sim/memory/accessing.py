"""The emitter's interface for instructions that access memory."""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.memory.windows import Windows
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Errors, LaneArrays, Located, Masks, Operands


class Accessing(Operands, Masks, Located, Errors, Protocol):
    """Addresses from operands, checked for the lanes that execute, and shown to the observer."""

    windows: Windows
    watch: Watcher

    @property
    def memory(self) -> LaneArrays: ...
