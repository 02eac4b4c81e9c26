"""Atomics that change memory which nobody has written: they read it first."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Slot as Block
from weft.device.sim.observe import Touch
from weft.device.sim.sanitizer.clocks import word
from weft.device.sim.sanitizer.layout import Kind, Record, Slot
from weft.device.sim.sanitizer.report import report
from weft.device.sim.sanitizer.shadow import Shadow, bytes_of
from weft.ir import Builder, Val
from weft.ptx.model import Instruction

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


def is_update(touch: Touch, ins: Instruction) -> bool:
    """Does the new value depend on the old one? An exchange's does not."""
    return touch.kind in ("atomic", "reduction") and "exch" not in ins.parts


class Updates(Shadow):
    """The code for atomics of one kernel."""

    def lanes(self, b: Builder, space: str, nbytes: int) -> Callable[..., Val]:
        """(slot, warp, site, addresses, lanes): reports lanes whose memory is not written yet."""

        def body(x: Builder, args: list[Val]) -> None:
            slot, warp, site, table, lanes = args
            p = x.load("ptr", 0, x.at(slot, Block.OBSERVER))
            tag = self.tag(x, p, warp, site, space)

            def one(lane: Val) -> None:
                address = word(x, x.at(table, lane.zext("i64") << 3))
                skip = x.label("skip")
                planes = self.planes(x, slot, p, site, address, space, skip)
                mine = tag | (lane.zext("i64") << Record.LANE) | bytes_of(x, address, nbytes)

                def check(empty: Val) -> None:
                    with x.when(empty, rare=True):
                        report(x, p, Kind.UNINITIALISED, mine, x.integer("i64", 0), address)

                if planes.filled is None:
                    start = word(x, p, Slot.START) << Record.CLOCK
                    check(word(x, planes.writers).ult(start))
                else:
                    with x.when(planes.filled.ne(0)):
                        mark = x.val("ptr", 0, f"inttoptr {planes.filled.tref} to ptr")
                        check(x.load("i8", 0, mark).eq(0))
                x.jump(skip)
                x.place(skip)

            each_lane(x, lanes, one)

        name = f"sanitizer_update_{space}_{nbytes}"
        return b.helper(name, [_P, _I32, _I64, _P, _I32], None, body)
