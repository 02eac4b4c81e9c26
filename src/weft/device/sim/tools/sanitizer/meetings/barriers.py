"""Checks of the block's barriers: all threads must arrive, at one and the same barrier."""

from __future__ import annotations

from collections.abc import Set

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_arrival
from weft.device.sim.layout import SlotFields
from weft.device.sim.observe import Watched
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, FindingKind, Record
from weft.device.sim.tools.sanitizer.report import first_of, report
from weft.ir import Builder, Val
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.isa import decode
from weft.ptx.model import Instruction

_P, _I32 = ("ptr", 0), ("i32", 0)


def arrive(w: Checking, number: Val, count: Val | None, lanes: Val) -> None:
    """Lanes arrive at a barrier of the block."""
    e, b = w.e, w.e.b
    none = b.integer("i64", 0)
    with b.when(lanes.ne(0)):
        p, which = w.p, (number & 15).zext("i64")
        at = b.at(p, (which << 2) + BlockState.ARRIVED)
        # A warp that does not wait is not ordered after the others, so it is not among those that
        # meet.
        if is_arrival(e.ins):
            w.clocks.arrive(b, p, e.warp, number & 15)
        else:
            b.store(b.load("i32", 0, at) | (b.integer("i32", 1) << e.warp), at)
        me = w.me(lanes)
        place = b.at(at, BlockState.FIRST - BlockState.ARRIVED)
        first = b.load("i32", 0, place)
        # PTX lets warps meet at different places. CUDA C++ does not, unless the barrier is not
        # aligned, as that of cooperative groups, or named and counted.
        if count is None and decode(e.ins).row.aligned:
            elsewhere = ((first ^ me.trunc("i32")) & Record.SITES).ne(0)
            with b.when((first & Record.SITES).ne(0) & elsewhere, rare=True):
                report(b, p, FindingKind.BARRIER_PLACES, me, first.zext("i64"), none)
        none_before = (first & Record.SITES).eq(0)
        b.store(none_before.select(first | me.trunc("i32"), first), place)
        row = b.at(e.slot, which * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS)
        there = b.load("i32", 0, b.at(row, SlotFields.ARRIVED))
        expected = b.load("i32", 0, b.at(row, SlotFields.EXPECTED))
        wanted = b.integer("i32", 0) if count is None else count
        with b.when(there.ne(0) & expected.ne(wanted), rare=True):
            report(b, p, FindingKind.BARRIER_COUNT, me, first.zext("i64"), expected.zext("i64"))
        _check_split(w, me, lanes)


def leave(w: Checking, lanes: Val) -> None:
    """Check lanes that return: others of their warp may wait for them at a barrier."""
    _check_others(w, w.e.b.integer("i32", -1), lanes)


def _check_split(w: Checking, me: Val, lanes: Val) -> None:
    """Check the lanes of a warp that are not here: late, if they were overtaken; else elsewhere.

    Lanes run in the order of the code. Only a spinning lane is overtaken, and may still arrive: it
    is checked at its next barrier, or when it returns.
    """
    e, b, schedule = w.e, w.e.b, w.e.schedule
    here = next((i for i, (_, ins) in enumerate(schedule.barriers) if ins is e.ins), -1)
    _check_others(w, b.integer("i32", here), lanes)
    if here in w.one_sided:
        waiting = schedule.waiting(here)
    elif here < 0 and not schedule.spin_heads and _rejoins(e.program, e.block.index, w.going_on):
        waiting = b.integer("i32", 0)  # who arrives does not wait: only lanes that are together
    else:
        return
    missing = schedule.live() & ~(lanes | waiting)
    with b.when(missing.ne(0) & schedule.pending.none_before(e.block.index), rare=True):
        report(b, w.p, FindingKind.BARRIER_SPLIT, me, b.integer("i64", 0), missing.zext("i64"))


def _check_others(w: Checking, here: Val, lanes: Val) -> None:
    """Check whether other lanes of the warp wait at another barrier, not passed by these."""
    e = w.e
    if not w.one_sided:
        return

    def body(x: Builder, args: list[Val]) -> None:
        frame, p, warp, here, lanes = args
        for i, ins in w.one_sided.items():
            waiting = x.load("i32", 0, x.at(frame, e.schedule.waits_at + 16 * i))
            with x.when(waiting.ne(0) & here.ne(i), rare=True):
                who = first_of(x, waiting, warp) | w.number(ins)
                report(x, p, FindingKind.BARRIER_SPLIT, who, x.integer("i64", 0), lanes.zext("i64"))

    fn = e.b.helper("sanitizer_others", [_P, _P, _I32, _I32, _I32], None, body)
    fn(e.frame, w.p, e.warp, here, lanes)


def one_sided(e: Watched, going_on: Set[int]) -> dict[int, Instruction]:
    """Barriers, by number, that all lanes of a warp must reach and some may not."""
    return {
        i: ins
        for i, (block, ins) in enumerate(e.schedule.barriers)
        if decode(ins).row.aligned and _rejoins(e.program, block, going_on)
    }


def _rejoins(program: KernelProgram, here: int, going_on: Set[int]) -> bool:
    """Return whether this barrier is on one side only of a branch whose sides rejoin and continue.

    Where they meet only to return, the other side is an early return, which a barrier allows.
    """
    graph = program.graph
    for source in program.divergent:
        join = graph.post_dominator[source]
        if join == here or not program.partial[here]:
            continue
        if join in going_on and _between(graph, source, join, here):
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
