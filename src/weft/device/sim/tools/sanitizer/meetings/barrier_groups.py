"""Named barriers that two groups of warps use at the same time.

`bar.sync 1, 64` completes when any two warps have arrived. Where two pairs use barrier 1 and
nothing orders them, a warp may meet one of the other pair. A warp is ordered after a group that has
met if it has synchronised with one of the group since then. Groups in which warps arrive and do not
wait (`bar.arrive`) are not checked: there any arrival is as good as another.
"""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_arrival, is_block_barrier
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, FindingKind
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.model import Instruction

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_BARRIERS = 16


def is_for_all(ins: Instruction) -> bool:
    """Return whether a barrier with a wait needs all threads of the block, not a number of them."""
    return len(ins.operands) <= (3 if decode(ins).row.has_dest else 1)


def has_counts(program: KernelProgram) -> bool:
    """Return whether threads wait at barriers for a number of threads."""
    code = (i for block in program.graph.blocks for i in block.code)
    return any(is_block_barrier(i) and not is_for_all(i) for i in code)


class BarrierGroups:
    """The code that stores the last group of each barrier, and compares the next one with it."""

    def __init__(self, w: Checking, used: bool) -> None:
        self.w, self.used = w, used

    def _row(self, x: Builder, p: Val, number: Val) -> Val:
        at = number.zext("i64") * BlockState.GROUP + self.w.layout.groups
        return x.at(p, at)

    def started(self, b: Builder, slot: Val) -> None:
        """A block starts: no group has met."""
        if self.used:
            p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
            with b.loop(_BARRIERS) as number:
                put(b, b.integer("i64", 0), self._row(b, p, number), BlockState.MEMBERS)

    def arrive(self, number: Val, count: Val | None, lanes: Val) -> None:
        """A warp arrives at a barrier: report it if another group may be there, too."""
        w, e, b = self.w, self.w.e, self.w.e.b
        if not self.used or count is None:
            return
        with b.when(lanes.ne(0)):
            if is_arrival(e.ins):
                at = b.at(w.p, ((number & 15).zext("i64") << 2) + BlockState.FIRST)
                b.store(b.load("i32", 0, at) | BlockState.ARRIVAL, at)
                return
            kinds = [_P, _I32, _I32, _I32, _I64]
            fn = b.helper("sanitizer_group", kinds, None, self._check)
            fn(e.slot, e.warp, number & 15, count, w.me(lanes))

    def _check(self, x: Builder, args: list[Val]) -> None:
        slot, warp, number, count, me = args
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        at = x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED)
        first = x.load("i32", 0, x.at(at, BlockState.FIRST - BlockState.ARRIVED))
        row = x.at(slot, number.zext("i64") * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS)
        complete = x.load("i32", 0, x.at(row, SlotFields.WEIGHT)).uge(count)
        named = number.zext("i64") << 32
        with x.when(first.ne(0) & complete & (first & BlockState.ARRIVAL).eq(0), rare=True):
            # It has not opened yet, so its warps cannot be ordered before this one.
            others = x.load("i32", 0, at) & ~(x.integer("i32", 1) << warp)
            report(
                x, p, FindingKind.BARRIER_SHARED, me, first.zext("i64"), others.zext("i64") | named
            )
        group = self._row(x, p, number)
        members = word(x, group, BlockState.MEMBERS).trunc("i32")
        with x.when(members.ne(0) & ((members >> warp) & 1).eq(0), rare=True):
            after = self._is_after(x, p, warp, members, word(x, group, BlockState.MET))
            with x.when(after ^ 1):
                last = word(x, group, BlockState.MEMBERS) >> 32
                report(x, p, FindingKind.BARRIER_SHARED, me, last, members.zext("i64") | named)

    def _is_after(self, x: Builder, p: Val, warp: Val, members: Val, met: Val) -> Val:
        """True at run time if the warp has synchronised with one of these since they met."""
        clocks = self.w.clocks
        known, seen = clocks.vector(x, p, warp, self.w.layout.clocks), x.alloca("i1")
        x.store(x.integer("i1", 0), seen)

        def look(u: Val) -> None:
            later = word(x, x.at(known, clocks.actor(x, p, u) << 3)).ugt(met)
            x.store(x.load("i1", 0, seen) | later, seen)

        each_lane(x, members, look)
        return x.load("i1", 0, seen)

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        """A barrier completes: its warps are the last group that has met there."""
        if not self.used:
            return

        def body(x: Builder, args: list[Val]) -> None:
            slot, number = args
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            at = x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED)
            first = x.load("i32", 0, x.at(at, BlockState.FIRST - BlockState.ARRIVED))
            members = x.load("i32", 0, at).zext("i64") | (first.zext("i64") << 32)
            waits = (first & BlockState.ARRIVAL).eq(0)
            group = self._row(x, p, number)
            put(x, waits.select(members, x.integer("i64", 0)), group, BlockState.MEMBERS)
            # The clock that `Clocks.meet` gives to all of them.
            put(x, word(x, p, BlockState.LATEST) + 1, group, BlockState.MET)

        b.helper("sanitizer_group_met", [_P, _I32], None, body)(slot, number)
