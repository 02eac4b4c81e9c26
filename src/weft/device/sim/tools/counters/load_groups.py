"""Loads of one basic block that share a base register, looked up in L1 together.

An unrolled loop reads `a[i]` to `a[i + 3]` from one register. All lanes are at one place, or those
of each row of lanes are. After the first load, L1 is asked for the bytes of all of them. If it
holds them, each later load only tests whether their lines are still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from weft.device.sim.analyse.form import INDEXED, ZERO
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.tools.counters.fast_path import LINE_BYTES, CountingFastPath, Span
from weft.device.sim.tools.counters.layout import CachedLineBits
from weft.device.sim.tools.counters.lines import LOAD, route_of
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.model import SIZES, Instruction, Mem, Reg


@dataclass
class LoadGroup:
    """Loads of the bytes `low` to `high` from a base; the first one is at `first`.

    cached  true at run time if L1 holds all bytes after the first one
    spans   their ranges: one for each row of lanes
    row     the counters of the first one
    """

    leader: int
    first: int
    low: int
    high: int
    cached: Val | None = None
    spans: Sequence[Span] = ()
    row: Val | None = None

    def look_up(self, paths: Sequence[CountingFastPath]) -> None:
        """After the first load, test whether all bytes are in L1, by one path per row of lanes."""
        self.row = paths[0].row
        self.spans = [p.whole_range(self.low - self.first, self.high - self.first) for p in paths]
        self.cached = reduce(and_, [s.cached for s in self.spans])

    def stays(self, b: Builder) -> Val:
        """True at run time if they are still there, for a later load."""
        assert self.cached is not None
        since = [b.load("i32", 0, s.count_at) - s.stamp for s in self.spans]
        return reduce(and_, [x.ult(CachedLineBits.WAYS) for x in since], self.cached)


def groups_of(program: KernelProgram, block: BasicBlock) -> dict[int, LoadGroup]:
    """Instruction -> its group, for groups of two loads or more."""
    out: dict[int, LoadGroup] = {}
    open_: dict[str, list[tuple[Instruction, int, int]]] = {}

    def close(name: str) -> None:
        loads = open_.pop(name, [])
        low, high = min((x[1] for x in loads), default=0), max((x[2] for x in loads), default=0)
        if len(loads) > 1 and high - low <= LINE_BYTES:
            group = LoadGroup(loads[0][0].index, loads[0][1], low, high)
            out.update({ins.index: group for ins, _, _ in loads})

    for ins in block.code:
        load = _load_of_rows(program, ins)
        if load is not None:
            name, low, high = load
            open_.setdefault(name, []).append((ins, low, high))
        for name in program.defs(ins):
            close(name)
    for name in list(open_):
        close(name)
    return out


def _load_of_rows(program: KernelProgram, ins: Instruction) -> tuple[str, int, int] | None:
    """(base, first byte, end) of a load through L1 that all lanes of the block make.

    All lanes, or those of each row, are at one place.
    """
    d = decode(ins)
    row = d.row
    if not row.is_load or ins.guard is not None or d.space != "global":
        return None
    mem = ins.operands[row.position(row.effects[0].operand)]
    if not isinstance(mem, Mem) or not isinstance(mem.base, Reg) or d.type not in SIZES:
        return None
    form = program.form_of(mem.base)
    if form is None or form.kind > INDEXED or form.off != ZERO:
        return None
    if route_of(ins, writes=False) != LOAD:
        return None
    return mem.base.name, mem.offset, mem.offset + d.lane_bytes
