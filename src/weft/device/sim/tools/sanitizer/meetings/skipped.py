"""Skipped barriers: whole warps branch around one, continue, and exit while others wait there.

A thread that has exited counts as arrived, so that such a barrier completes. The last branch from
which the barrier could still be reached distinguishes two cases. If its sides rejoin and continue,
the warp has skipped the barrier. If they rejoin only to return, it is an early exit (`if (i >= n)
return;`), which is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_block_barrier, is_cluster_barrier
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, FindingKind, Record
from weft.device.sim.tools.sanitizer.meetings.barrier_groups import is_for_all
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.ptx.cfg import Graph

_P, _I32 = ("ptr", 0), ("i32", 0)
_BITS = 64
"""The maximum number of sets of barriers that are distinguished."""


@dataclass(frozen=True, slots=True)
class SkipPlan:
    """Barriers that may be skipped, and the branches after which a warp cannot reach them.

    bits      instruction of a barrier -> its bit; barriers with the same branches share one
    branches  block -> (bits that its branch decides, those of them that are skipped there)
    """

    bits: Mapping[int, int]
    branches: Mapping[int, tuple[int, int]]


def plan(program: KernelProgram, going_on: Set[int]) -> SkipPlan:
    """The barriers of all threads that some branch may skip."""
    graph = program.graph
    sets: dict[frozenset[tuple[int, bool]], int] = {}
    bits: dict[int, int] = {}
    for block in graph.blocks:
        last = block.code[-1] if block.code else None
        if last is None or not is_block_barrier(last) or not is_for_all(last):
            continue
        if is_cluster_barrier(last):  # it completes without the warps that exit
            continue
        ways = frozenset(_leaving(graph, block.index, going_on))
        if any(skips for _, skips in ways) and (ways in sets or len(sets) < _BITS):
            bits[block.code[-1].index] = 1 << sets.setdefault(ways, len(sets))
    branches: dict[int, tuple[int, int]] = {}
    for ways, bit in sets.items():
        for source, skips in ways:
            decided, skipped = branches.get(source, (0, 0))
            branches[source] = decided | 1 << bit, skipped | int(skips) << bit
    return SkipPlan(bits, branches)


def _leaving(graph: Graph, barrier: int, going_on: Set[int]) -> Iterator[tuple[int, bool]]:
    """(branch after which the barrier may be unreachable, whether it skips the barrier)."""
    before: dict[int, list[int]] = {}
    for block in graph.blocks:
        for target in block.successors:
            before.setdefault(target, []).append(block.index)
    reach, work = {barrier}, [barrier]
    while work:
        for x in before.get(work.pop(), []):
            if x not in reach:
                reach.add(x)
                work.append(x)
    for x in reach:
        ways = {target in reach for target in graph.blocks[x].successors}
        if len(ways) == 2:
            yield x, graph.post_dominator[x] in going_on


class Skipped:
    """The code that records the barriers that warps skip, and checks barriers that complete."""

    def __init__(self, w: Checking) -> None:
        self.w, self.plan = w, plan(w.e.program, w.going_on)

    def started(self, b: Builder, slot: Val) -> None:
        """A block starts: nothing is skipped."""
        if not self.plan.bits:
            return
        p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
        with b.loop(self.w.clocks.warps) as warp:
            put(b, b.integer("i64", 0), self.w.clocks.row(b, p, warp), BlockState.SKIPPED)

    def branch(self, block: int) -> None:
        """A warp is about to branch: the last such branch before it exits decides."""
        if block not in self.plan.branches:
            return
        e, b = self.w.e, self.w.e.b
        decided, skipped = (b.integer("i64", _signed(x)) for x in self.plan.branches[block])
        at = b.at(self.w.clocks.row(b, self.w.p, e.warp), BlockState.SKIPPED)
        put(b, (word(b, at) & ~decided) | skipped, at)

    def released(self, b: Builder, slot: Val, number: Val) -> None:
        """Check a barrier that completes: warps that are not there have exited."""
        if self.plan.bits:
            b.helper("sanitizer_skipped", [_P, _I32], None, self._released)(slot, number)

    def _released(self, x: Builder, args: list[Val]) -> None:
        slot, number = args
        clocks = self.w.clocks
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        at = x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED)
        there = x.load("i32", 0, at)
        missing = ~there & ((1 << clocks.warps) - 1)
        with x.when(missing.ne(0), rare=True):
            first = x.load("i32", 0, x.at(at, BlockState.FIRST - BlockState.ARRIVED)).zext("i64")
            skipped = x.alloca("i32")
            x.store(x.integer("i32", 0), skipped)
            bit = self._bit_of(x, first & Record.SITES)

            def look(warp: Val) -> None:
                noted = word(x, clocks.row(x, p, warp), BlockState.SKIPPED) & bit
                one = noted.ne(0).zext("i32") << warp
                x.store(x.load("i32", 0, skipped) | one, skipped)

            each_lane(x, missing, look)
            gone = x.load("i32", 0, skipped).zext("i64")
            with x.when(gone.ne(0)):
                warps = there.zext("i64") | (gone << 32)
                report(x, p, FindingKind.BARRIER_SKIPPED, first, x.integer("i64", 0), warps)

    def _bit_of(self, x: Builder, site: Val) -> Val:
        """The bit of the barrier that a record names; 0 for one that cannot be skipped."""
        found = x.integer("i64", 0)
        for _, ins in self.w.e.schedule.barriers:
            bit = self.plan.bits.get(ins.index)
            if bit is not None:
                here = site.eq(self.w.number(ins) & Record.SITES)
                found = here.select(x.integer("i64", _signed(bit)), found)
        return found


def _signed(bits: int) -> int:
    """64 bits as the signed number that the IR writes."""
    return bits - (1 << 64) if bits >> 63 else bits
