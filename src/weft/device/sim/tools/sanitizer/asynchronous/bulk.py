"""Bulk copies: their targets in global memory count as written from their issue on.

They take no part in races there: no thread makes them, and they land when they are waited for.
"""

from __future__ import annotations

from functools import partial

from weft.device.sim.access import MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields as Block
from weft.device.sim.layout import Space
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_FULL = 15
"""All four bytes of a word are written."""


def mark(w: Checking, access: MemoryAccess, lanes: Val) -> None:
    """Mark the targets of a copy as written."""
    if not access.writes or access.space != Space.GLOBAL:
        return
    e, b, sizes = w.e, w.e.b, w.e.memory.offsets()  # an array of 32 words, whatever they are
    assert access.sizes is not None
    b.store(access.sizes, sizes, 64)

    def body(x: Builder, args: list[Val]) -> None:
        slot, who, sizes, targets, lanes = args
        p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))

        def one(lane: Val) -> None:
            nbytes = x.load("i32", 0, x.at(sizes, lane.zext("i64") << 2))
            address = x.load("i64", 0, x.at(targets, lane.zext("i64") << 3), 8)
            with x.breakable() as end:
                leave = partial(x.jump, end)
                filled = w.exact.planes(x, slot, p, who, address, "global", leave).filled
                assert filled is not None
                with x.when(filled.ne(0)), x.loop(nbytes >> 2) as i:
                    at = filled + i.zext("i64")
                    place = x.val("ptr", 0, f"inttoptr {at.typed} to ptr")
                    x.store(x.integer("i8", _FULL), place)

        each_lane(x, lanes, one)

    fn = b.helper("sanitizer_bulk", [_P, _I64, _P, _P, _I32], None, body)
    fn(e.slot, w.site(), sizes, e.memory.addresses(access.address), lanes)
