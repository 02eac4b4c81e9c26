"""Local memory: which of its words a thread of this block has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Slot as Block
from weft.device.sim.observe import Touch
from weft.device.sim.sanitizer.clocks import word
from weft.device.sim.sanitizer.layout import Kind, Record, Slot
from weft.device.sim.sanitizer.report import report
from weft.ir import Builder, Val

if TYPE_CHECKING:
    from weft.device.sim.emit import WarpEmitter

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class Local:
    """Stamps of local memory: the block that wrote each word last, by its starting clock.

    Where local addresses are made generic (`escapes`), generic accesses may be to local memory.
    """

    def __init__(self, layout: Slot, e: WarpEmitter) -> None:
        self.layout, self.e = layout, e
        body = [i for block in e.program.graph.blocks for i in block.code]
        self.escapes = any(i.parts[0] == "cvta" and "local" in i.parts for i in body)

    def access(self, touch: Touch, lanes: Val) -> None:
        """Notes a write, or looks whether anything was written there."""
        e, b, size = self.e, self.e.b, self.e.program.local_bytes
        if not size:
            return

        def body(x: Builder, args: list[Val]) -> None:
            slot, warp, site, table, lanes, start = args
            p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
            stamp = word(x, p, Slot.START).trunc("i32")

            def one(lane: Val) -> None:
                thread = warp.zext("i64") * 32 + lane.zext("i64")
                address = word(x, x.at(table, lane.zext("i64") << 3))
                rel = address - start - lane.zext("i64") * size
                with x.when(rel.ule(size - touch.nbytes)):
                    at = (thread * (size // 4) + (rel >> 2)) << 2
                    place = x.at(p, at + self.layout.local)
                    self._words(x, p, place, stamp, touch, _record(site, warp, lane), address)

            each_lane(x, lanes, one)

        name = f"sanitizer_local_{'w' if touch.writes else 'r'}{touch.nbytes}"
        fn = b.helper(name, [_P, _I32, _I64, _P, _I32, _I64], None, body)
        start = b.val("i64", 0, f"ptrtoint {e.local.tref} to i64")
        fn(e.slot, e.warp, self._site(), e.access.addresses(touch.address), lanes, start)

    def _site(self) -> Val:
        return self.e.watch.site()  # type: ignore[attr-defined, no-any-return]

    def _words(
        self, x: Builder, p: Val, place: Val, stamp: Val, touch: Touch, mine: Val, address: Val
    ) -> None:
        fresh = x.integer("i1", 1)
        for i in range(max(1, touch.nbytes // 4)):
            if touch.writes:
                x.store(stamp, x.at(place, 4 * i), 4)
            else:
                fresh = fresh & x.load("i32", 0, x.at(place, 4 * i), 4).ne(stamp)
        if not touch.writes:
            with x.when(fresh, rare=True):
                report(x, p, Kind.UNINITIALISED, mine, x.integer("i64", 0), address)


def _record(site: Val, warp: Val, lane: Val) -> Val:
    return site | (lane.zext("i64") << Record.LANE) | (warp.zext("i64") << Record.WARP)
