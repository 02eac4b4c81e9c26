"""`if` and `if else` in divergent code: the paths run one after the other, then all lanes continue.

Nothing is recorded in the frame (`pending_lanes`): the lanes that reached the branch, and those
that wait for the second path, are variables of the code.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.analyse.hammocks import Hammock
from weft.device.sim.emit.pending_lanes import RunningLanes
from weft.device.sim.protocols import Masks
from weft.ir import Val
from weft.records import dataclass


class Branching(RunningLanes, Masks, Protocol):
    """The warp at the end of a block."""


@dataclass(frozen=True, slots=True)
class _Slots:
    """The lanes that reached a branch (None: all 32), and those that wait for its second path."""

    lanes: Val | None
    later: Val | None


class HammockBranches:
    """The hammocks of a warp under emission."""

    def __init__(self, e: Branching) -> None:
        self.e = e
        self._slots: dict[int, _Slots] = {}

    def begin(self, hammock: Hammock, lanes: Val) -> None:
        """Save the lanes that reached the branch."""
        b = self.e.b
        came = None if lanes.is_const else b.alloca("i32")
        later = b.alloca("i32") if len(hammock.paths) == 2 else None
        self._slots[hammock.source] = _Slots(came, later)
        if came is not None:
            b.store(lanes, came)
        if later is not None:
            b.store(b.integer("i32", 0), later)

    def split(self, hammock: Hammock, lanes: dict[int, Val]) -> None:
        """Run the lanes of the first path: the lanes split by the target of the branch."""
        b, slots = self.e.b, self._slots[hammock.source]
        first, *second = hammock.paths
        if slots.later is not None:
            b.store(lanes[second[0].entry], slots.later)
        b.store(lanes[first.entry], self.e.mask_slot)
        b.jump(f"B{first.entry}")

    def rejoin(self, hammock: Hammock, block: int) -> None:
        """End a path that contains `block`: the second path follows, or all lanes continue."""
        e, b, slots = self.e, self.e.b, self._slots[hammock.source]
        if slots.later is not None and block in hammock.paths[0].members:
            rest = b.load("i32", 0, slots.later)
            with b.when(rest.ne(0)):
                b.store(rest, e.mask_slot)
                b.jump(f"B{hammock.paths[1].entry}")
        came = b.integer("i32", -1) if slots.lanes is None else b.load("i32", 0, slots.lanes)
        b.store(came, e.mask_slot)
