"""The rows of counters that a kernel's code increments, and a description of each."""

from __future__ import annotations

from typing import Any

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.layout import ContextFields, SlotFields, Space, WorkerFields
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters.layout import CounterRow, Last, PerWorker, Repeated
from weft.ir import Builder, Val

_VERBS = {
    AccessKind.READ: "load",
    AccessKind.WRITE: "store",
    AccessKind.ATOMIC: "atomic",
    AccessKind.REDUCTION: "reduction",
}
_NAMES = {
    AccessUnit.LANES: "{}",
    AccessUnit.MATRIX: "matrix {}",
    AccessUnit.FRAGMENT: "fragment {}",
    AccessUnit.COPY: "copy",
    AccessUnit.BULK: "bulk {}",
    AccessUnit.MBARRIER: "mbarrier",
}


def name_of(access: MemoryAccess) -> str:
    """The kind of an access as profiles name it: "load", "copy", "matrix store"."""
    if access.masks is not None and access.writes:
        return "multicast"
    name = "async {}" if access.sends else _NAMES[access.unit]
    return name.format(_VERBS[access.kind])


class CounterRows:
    """Rows in the worker's memory; `notes` describe the count of each."""

    def __init__(self, e: Watched) -> None:
        self.e = e
        self.notes: list[dict[str, Any]] = []
        self.nbytes = PerWorker.HEADER

    def add(self, places: int = 0, *, any_lanes: bool = False, **what: Any) -> Val:
        """A new row, with `places` counters for places in a line behind it.

        `any_lanes` reserves the records of `count_lanes` and `count_runs` about the last execution.
        """
        at = self.nbytes + (Last.SIZE + Repeated.SIZE) * any_lanes
        self.nbytes = at + CounterRow.SIZE + 8 * places
        self.notes.append({"at": at, "places": places, "repeated": any_lanes, **what})
        return self.e.b.at(self.counters(), at)

    def of(self, access: MemoryAccess, *, space: int | None = None, **more: Any) -> Val:
        """A row for the effect of an access in its state space, or in another that is given."""
        return self.add(
            access=access.ins.index,
            kind=name_of(access),
            space=access.space if space is None else space,
            width=access.nbytes,
            **more,
        )

    def near(self, access: MemoryAccess, **more: Any) -> Val:
        """A row for the effect of an access in shared memory."""
        return self.of(access, space=Space.SHARED, **more)

    def counters(self) -> Val:
        """The worker's own memory."""
        return self.e.b.load("ptr", 0, self.e.b.at(self.e.worker, WorkerFields.OBSERVER))

    def launch(self) -> Val:
        """The memory that all workers share."""
        return self.e.b.load("ptr", 0, self.e.b.at(self.e.context, ContextFields.OBSERVER))


def block_number(b: Builder, context: Val, slot: Val) -> Val:
    """The number of a slot's block in its grid."""
    x, y, z = (
        b.load("i32", 0, b.at(slot, at)).zext("i64")
        for at in (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)
    )
    wide, high = (
        b.load("i64", 0, b.at(context, at)) for at in (ContextFields.GRID_X, ContextFields.GRID_Y)
    )
    return (z * high + y) * wide + x
