"""Checks of warp-wide synchronisation: all named lanes must take part."""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import member_mask
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import FindingKind, WorkerState
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Val
from weft.ptx.isa import decode
from weft.ptx.model import Instruction, Operand

ALL = 0xFFFFFFFF


def mask_of(program: KernelProgram, ins: Instruction) -> Operand | None:
    """The member mask of a warp-wide instruction, unless it names all lanes."""
    mask = member_mask(ins, decode(ins).row)
    form = program.form_of(mask) if mask is not None else None
    everyone = form is not None and form.const is not None and form.const & ALL == ALL
    return None if everyone else mask


def order_lanes(w: Checking, ins: Instruction) -> None:
    """Order the lanes that meet: all of the warp, or groups that masks name."""
    e, b = w.e, w.e.b
    mask = mask_of(e.program, ins)
    if mask is None:
        w.clocks.advance(b, w.p, e.warp)
        return
    lanes, live = e.executing(), e.schedule.live()
    named = e.read(mask, "b32")

    def together(group: Val) -> None:
        everyone = (live & ~group).eq(0)
        with b.when(everyone):
            w.clocks.advance(b, w.p, e.warp)
        with b.when(everyone ^ 1):
            w.clocks.meet_lanes(b, w.p, e.warp, group)

    if not named.lanes:
        with b.when(lanes.ne(0)):
            together(named & lanes)
        return
    # Lanes with equal masks are one group; several groups may meet at one instruction.
    masks = b.array("i32", 32)
    b.store(named, masks, 64)
    rest = b.alloca("i32")
    b.store(lanes, rest)

    def group_of(lane: Val) -> None:
        """The group of a lane that is in none of those before."""
        left = b.load("i32", 0, rest)
        with b.when(((left >> lane) & 1).ne(0)):
            group = b.load("i32", 0, b.at(masks, lane.zext("i64") << 2)) & lanes
            b.store(left & ~group, rest)
            together(group)

    each_lane(b, lanes, group_of)


def check_lanes(w: Checking, ins: Instruction) -> None:
    """Report lanes that an instruction names and that do not execute it, although they could."""
    e, b = w.e, w.e.b
    w.count(WorkerState.SYNCS, b.integer("i64", 1))
    mask = member_mask(ins, decode(ins).row)
    if e.executes_fully and mask is None:
        return
    lanes = e.executing()
    live = e.schedule.live()
    outside = b.integer("i32", 0)
    if mask is None:
        missing = ~lanes
    else:
        named = e.read(mask, "b32")
        if named.lanes:
            first = b.intrinsic("cttz", [lanes], extra="false") & 31
            named = b.extract(named, first)
        else:
            outside = lanes & ~named
        # Lanes that have exited need not take part.
        missing = named & live & ~lanes
    for wrong, kind in ((missing, FindingKind.MISSING_LANES), (outside, FindingKind.NOT_IN_MASK)):
        with b.when(lanes.ne(0) & wrong.ne(0), rare=True):
            none = b.integer("i64", 0)
            report(b, w.p, kind, w.me(lanes), none, wrong.zext("i64"))
    e.forget_mask()
