"""Code that records the addresses of a few warps, beside the code that counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.device.sim.access import Access, Unit, touching
from weft.device.sim.layout import Context, Slot, Space
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters.layout import BLOCKS, RECORD, WARPS, Launch
from weft.device.sim.tools.counters.rows import name_of
from weft.device.sim.tools.counters.watcher import CountWatcher
from weft.ir import Builder, Val

_SPACES = (Space.GLOBAL, Space.GENERIC, Space.SHARED)
_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class SampleWatcher(CountWatcher):
    """Before each access is counted, warps of a chosen block leave their addresses."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self._sites: list[dict[str, Any]] = []

    def notes(self) -> Mapping[str, Any]:
        return {**super().notes(), "sites": self._sites}

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        super().started(b, context, worker, slot)
        launch = b.load("ptr", 0, b.at(context, Context.OBSERVER))
        table = b.load("ptr", 0, b.at(launch, Launch.SAMPLED))
        x, y, z = (
            b.load("i32", 0, b.at(slot, at)).zext("i64")
            for at in (Slot.BLOCK_X, Slot.BLOCK_Y, Slot.BLOCK_Z)
        )
        wide, high = (
            b.load("i64", 0, b.at(context, at)) for at in (Context.GRID_X, Context.GRID_Y)
        )
        number = (z * high + y) * wide + x
        chosen = b.integer("i64", 0)
        # In a grid of one block both rows name it: the first one wins.
        for row in reversed(range(BLOCKS)):
            wanted = b.load("i64", 0, b.at(table, 16 * row))
            records = b.load("i64", 0, b.at(table, 16 * row + 8))
            chosen = b.select(number.eq(wanted), records, chosen)
        b.store(chosen, b.load("ptr", 0, b.at(slot, Slot.OBSERVER)), 8)

    def access(self, access: Access) -> None:
        if access.space in _SPACES and _has_lanes(access):
            self._sample(access)
        super().access(access)

    def _sample(self, access: Access) -> None:
        e, b = self.e, self.e.b
        site = len(self._sites)
        self._sites.append(
            {"access": access.ins.index, "kind": name_of(access), "nbytes": access.nbytes}
        )
        lanes = touching(e, access)
        records = b.load("i64", 0, b.load("ptr", 0, b.at(e.slot, Slot.OBSERVER)), 8)
        with b.when(records.ne(0), rare=True):
            start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
            keep = b.helper("keep_sample", [_I64, _I32, _I32, _I64, _P], None, _keep)
            first = records + site * WARPS * RECORD * 8
            keep(first, e.warp, lanes, start, e.memory.addresses(access.address))


def _has_lanes(access: Access) -> bool:
    """Has each lane a place of its own? Of a copy, the source is shown."""
    if access.unit is Unit.COPY:
        return not access.writes
    return access.unit in (Unit.LANES, Unit.MATRIX)


def _keep(b: Builder, args: list[Val]) -> None:
    """The first time that a warp comes by with a lane or more."""
    records, warp, lanes, start, table = args
    with b.when(lanes.ne(0) & warp.ult(WARPS)):
        at = records + warp.zext("i64") * (RECORD * 8)
        record = b.val("ptr", 0, f"inttoptr {at.typed} to ptr")
        # The lanes are never 0, so they mark the record as taken.
        with b.when(b.load("i64", 0, record, 8).eq(0)):
            b.store(lanes.zext("i64"), record, 8)
            b.store(start, b.at(record, 8), 8)
            b.store(b.load("i64", 32, table, 64), b.at(record, 16), 8)
