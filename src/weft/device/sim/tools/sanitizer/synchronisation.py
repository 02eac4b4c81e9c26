"""Checks of barriers and warp-wide synchronisation: do all named threads arrive, at one barrier?"""

from __future__ import annotations

from weft.device.sim.analyse.program import Program
from weft.device.sim.analyse.waits import is_arrival, member_mask
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Slot
from weft.device.sim.observe import Watched
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, Kind, WorkerState
from weft.device.sim.tools.sanitizer.report import first_of, report
from weft.ir import Builder, Val
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.isa import control_of, decode
from weft.ptx.isa.columns import Control
from weft.ptx.model import Instruction, Operand

_P, _I32 = ("ptr", 0), ("i32", 0)
ALL = 0xFFFFFFFF
_ENDS = (Control.RETURN, Control.EXIT)


def mask_of(program: Program, ins: Instruction) -> Operand | None:
    """The member mask of a warp-wide instruction, unless it names all lanes."""
    mask = member_mask(ins, decode(ins).row)
    form = program.form_of(mask) if mask is not None else None
    everyone = form is not None and form.const is not None and form.const & ALL == ALL
    return None if everyone else mask


def order_lanes(w: Checking, ins: Instruction) -> None:
    """The lanes that meet know of each other: all of the warp, or groups that masks name."""
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
    """Lanes that an instruction names and that do not execute it, though they could."""
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
    for wrong, kind in ((missing, Kind.MISSING_LANES), (outside, Kind.NOT_IN_MASK)):
        with b.when(lanes.ne(0) & wrong.ne(0), rare=True):
            none = b.integer("i64", 0)
            report(b, w.p, kind, w.me(lanes), none, wrong.zext("i64"))
    e.forget_mask()


def arrive(w: Checking, number: Val, count: Val | None, lanes: Val) -> None:
    """Lanes arrive at a barrier of the block."""
    e, b = w.e, w.e.b
    none = b.integer("i64", 0)
    with b.when(lanes.ne(0)):
        p, which = w.p, (number & 15).zext("i64")
        at = b.at(p, (which << 2) + BlockState.ARRIVED)
        # A warp that does not wait learns nothing of the others, so it is not among those that
        # meet.
        if is_arrival(e.ins):
            w.clocks.arrive(b, p, e.warp, number & 15)
        else:
            b.store(b.load("i32", 0, at) | (b.integer("i32", 1) << e.warp), at)
        me = w.me(lanes)
        place = b.at(at, BlockState.SITES - BlockState.ARRIVED)
        first = b.load("i32", 0, place)
        site = w.site().trunc("i32")
        if count is None and not is_arrival(e.ins):
            with b.when(first.ne(0) & first.ne(site), rare=True):
                report(b, p, Kind.BARRIER_PLACES, me, first.zext("i64"), none)
        b.store(first.eq(0).select(site, first), place)
        row = b.at(e.slot, which * Slot.BARRIER_BYTES + Slot.BARRIERS)
        there = b.load("i32", 0, b.at(row, Slot.ARRIVED))
        expected = b.load("i32", 0, b.at(row, Slot.EXPECTED))
        wanted = b.integer("i32", 0) if count is None else count
        with b.when(there.ne(0) & expected.ne(wanted), rare=True):
            report(b, p, Kind.BARRIER_COUNT, me, first.zext("i64"), expected.zext("i64"))
        _check_split(w, me, lanes)


def leave(w: Checking, lanes: Val) -> None:
    """Lanes return: a barrier at which others of their warp wait for them is not for all."""
    _check_others(w, w.e.b.integer("i32", -1), lanes)


def _check_split(w: Checking, me: Val, lanes: Val) -> None:
    """Lanes of a warp that are not here: late, if they were overtaken; else elsewhere.

    Lanes run in the order of the code. Only who spins is overtaken, and may still come: what
    it does next is looked at when it arrives at a barrier, or returns.
    """
    e, b, schedule = w.e, w.e.b, w.e.schedule
    here = next((i for i, (_, ins) in enumerate(schedule.barriers) if ins is e.ins), -1)
    _check_others(w, b.integer("i32", here), lanes)
    if here in w.one_sided:
        waiting = schedule.waiting(here)
    elif here < 0 and not schedule.spin_heads and _rejoins(e.program, e.block.index):
        waiting = b.integer("i32", 0)  # who arrives does not wait: only lanes that are together
    else:
        return
    missing = schedule.live() & ~(lanes | waiting)
    with b.when(missing.ne(0) & schedule.pending.none_before(e.block.index), rare=True):
        report(b, w.p, Kind.BARRIER_SPLIT, me, b.integer("i64", 0), missing.zext("i64"))


def _check_others(w: Checking, here: Val, lanes: Val) -> None:
    """Do other lanes of the warp wait at another barrier, which these have not passed?"""
    e = w.e
    if not w.one_sided:
        return

    def body(x: Builder, args: list[Val]) -> None:
        frame, p, warp, here, lanes = args
        for i, ins in w.one_sided.items():
            waiting = x.load("i32", 0, x.at(frame, e.schedule.waits_at + 16 * i))
            with x.when(waiting.ne(0) & here.ne(i), rare=True):
                who = first_of(x, waiting, warp) | w.number(ins)
                report(x, p, Kind.BARRIER_SPLIT, who, x.integer("i64", 0), lanes.zext("i64"))

    fn = e.b.helper("sanitizer_others", [_P, _P, _I32, _I32, _I32], None, body)
    fn(e.frame, w.p, e.warp, here, lanes)


def one_sided(e: Watched) -> dict[int, Instruction]:
    """Barriers, by number, that all lanes of a warp must reach and some may not."""
    return {
        i: ins
        for i, (block, ins) in enumerate(e.schedule.barriers)
        if decode(ins).row.aligned and _rejoins(e.program, block)
    }


def _rejoins(program: Program, here: int) -> bool:
    """Is this barrier on one side only of a branch whose sides meet again and go on?

    Where they meet only to return, the other side is an early return, which a barrier allows.
    """
    graph = program.graph
    for source in program.divergent:
        join = graph.post_dominator[source]
        if join in (EXIT, here) or not program.partial[here]:
            continue
        block = graph.blocks[join]
        returns = block.successors == [EXIT]
        goes_on = not returns or any(control_of(i.parts) not in _ENDS for i in block.code)
        if goes_on and _between(graph, source, join, here):
            return True
    return False


def _between(graph: Graph, source: int, join: int, here: int) -> bool:
    blocks = graph.blocks
    seen: set[int] = set()
    work = list(blocks[source].successors)
    while work:
        x = work.pop()
        if x in seen or x in (join, EXIT):
            continue
        seen.add(x)
        work.extend(blocks[x].successors)
    return here in seen
