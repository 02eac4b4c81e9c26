"""Where threads meet: are those there that are named, and do they meet at one barrier?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.device.sim.layout import Frame
from weft.device.sim.layout import Slot as Block
from weft.device.sim.sanitizer.layout import Kind, Slot, Worker
from weft.device.sim.sanitizer.report import report
from weft.ir import Val
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.model import Instruction

if TYPE_CHECKING:
    from weft.device.sim.emit import WarpEmitter
    from weft.device.sim.sanitizer.watcher import Sanitizing

WHOLE_WARP = ("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma")
"""Instructions that all 32 lanes execute together."""


def check_lanes(w: Sanitizing, ins: Instruction) -> None:
    """Lanes that an instruction names and that do not execute it, though they could."""
    e, b = w.e, w.e.b
    w.count(Worker.SYNCS, b.integer("i64", 1))
    whole = ins.parts[0] in WHOLE_WARP
    if e.executes_fully and whole:
        return
    lanes = e.executing()
    live = e.schedule.header_load(Frame.LIVE)
    outside = b.integer("i32", 0)
    if whole:
        missing = ~lanes
    else:
        named = e.read(ins.operands[-1], "b32")
        if named.n:
            first = b.intrinsic("cttz", [lanes], extra="false") & 31
            named = b.extract(named, first)
        else:
            outside = lanes & ~named
        missing = named & live & ~lanes
    for found, kind in ((missing, Kind.MISSING_LANES), (outside, Kind.NOT_IN_MASK)):
        with b.when(lanes.ne(0) & found.ne(0), rare=True):
            nobody = b.integer("i64", 0)
            report(b, w.p, kind, w.me(lanes), nobody, found.zext("i64"))
    e.forget_mask()


def arrive(w: Sanitizing, number: Val, count: Val | None, lanes: Val) -> None:
    """Lanes arrive at a barrier of the block."""
    e, b = w.e, w.e.b
    nobody = b.integer("i64", 0)
    with b.when(lanes.ne(0)):
        p, which = w.p, (number & 15).zext("i64")
        at = b.at(p, (which << 2) + Slot.ARRIVED)
        if "arrive" in e.ins.parts:
            w.clocks.arrive(b, p, e.warp, number & 15)
        else:
            b.store(b.load("i32", 0, at) | (b.integer("i32", 1) << e.warp), at)
        me = w.me(lanes)
        place = b.at(at, Slot.SITES - Slot.ARRIVED)
        first = b.load("i32", 0, place)
        site = w.site().trunc("i32")
        if count is None and "arrive" not in e.ins.parts:
            with b.when(first.ne(0) & first.ne(site), rare=True):
                report(b, p, Kind.BARRIER_PLACES, me, first.zext("i64"), nobody)
        b.store(first.eq(0).select(site, first), place)
        row = b.at(e.slot, which * Block.BARRIER_BYTES + Block.BARRIERS)
        there = b.load("i32", 0, b.at(row, Block.ARRIVED))
        expected = b.load("i32", 0, b.at(row, Block.EXPECTED))
        wanted = b.integer("i32", 0) if count is None else count
        with b.when(there.ne(0) & expected.ne(wanted), rare=True):
            report(b, p, Kind.BARRIER_COUNT, me, first.zext("i64"), expected.zext("i64"))
        if _rejoins(e) and e.ins.parts[0] != "barrier":
            missing = e.schedule.header_load(Frame.LIVE) & ~lanes
            with b.when(missing.ne(0), rare=True):
                report(b, p, Kind.BARRIER_SPLIT, me, nobody, missing.zext("i64"))


def _rejoins(e: WarpEmitter) -> bool:
    """Is this barrier on one side only of a branch whose sides meet again and go on?

    Where they meet only to return, the other side is an early return, which a barrier allows.
    """
    program, here = e.program, e.block.index
    for source in program.divergent:
        join = program.graph.post_dominator[source]
        if join in (EXIT, here) or not program.partial[here]:
            continue
        code = program.graph.blocks[join].code
        goes_on = any(i.parts[0] not in ("ret", "exit") for i in code)
        if goes_on and _between(program.graph, source, join, here):
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
