"""Models how long a warp takes when no unit is busy, and where it waits.

The code is split at branches, as in `latency`. An instruction issues when its operands are ready;
the assembler may reorder independent ones. A wait is charged to the instruction that waits, under
ncu's name of the stall reason. Latencies are those of an H200.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from weft.measure.profile.latency import WAITED, WRITES, issues, needed, registers, slots_of
from weft.measure.profile.prediction import constants as c
from weft.measure.profile.prediction.contention import spin_clocks
from weft.measure.profile.prediction.loops import pieces
from weft.measure.profile.prediction.path import OneBlock, Path, fill_clocks
from weft.measure.profile.prediction.phases import SCHEDULERS, Memory, Phase, asked, product_clocks
from weft.measure.profile.work import (
    copy_step,
    has_slow_path,
    is_removed,
    joins_block,
    joins_cluster,
    product_step,
    waits_at_barrier,
)
from weft.ptx.isa.columns import AsyncStep
from weft.values.profile import Access, Instruction, Profile

LONG, SHORT, WAIT, BARRIER = "long scoreboard", "short scoreboard", "wait", "barrier"
SELECTED = "selected"
"""An instruction issues: no stall."""

Stalls = dict[tuple[int, str], float]
"""(index of an instruction, reason) -> clocks of all warps."""


@dataclass
class _Warp:
    """Results that a warp waits for: register -> (clock, reason); completions of copies."""

    ready: dict[str, tuple[float, str]] = field(default_factory=dict)
    copies: float = 0.0
    groups: list[float] = field(default_factory=list)
    products: float = 0.0


@dataclass(frozen=True)
class Chain:
    """The clocks of all warps without competition, and their waits.

    met   the warps of a block meet at barriers: the clocks have the time of units between these
    tail  clocks of what one block of a launch does alone, such as the last one with a sum of all
    """

    clocks: float
    stalls: Mapping[tuple[int, str], float]
    met: bool = False
    tail: float = 0.0


def chain(p: Profile, memory: Memory, blocks: float, launches: int = 0) -> Chain:
    """The time of all warps of so many blocks, if a block has its SM to itself.

    launches  of which all blocks were counted; 0 if the blocks are a sample
    """
    times, stalls = needed(p), defaultdict[tuple[int, str], float](float)
    spins = spin_clocks(p, -(-p.launch.threads // 32))
    dram, warps = memory.dram, -(-p.launch.threads // 32)
    fill = fill_clocks(p, dram)
    together = not fill and any(joins_block(i.opcode) for i in p.instructions if i.executions)
    memory = replace(memory, met=together)
    path = Path(warps, blocks, together)
    last = OneBlock(warps, launches)
    for piece in pieces(p):
        warp, own = _Warp(), Stalls()
        count = times[piece.code[0].index]
        alone = last.takes(count, blocks, bool(piece.rounds))
        part = path.warps(count, piece.once) if together else float(SCHEDULERS)
        code = [_step(i, memory, part, times, spins.get(i.index, 0.0)) for i in piece.code]
        code *= max(1, piece.rounds)
        end = _walk(code, warp, 0.0, dram, own)
        if piece.rounds:
            own = Stalls()
            start, end = end, _walk(code, warp, end, dram, own)
            end = (end - start) / piece.rounds
        if alone:
            last.add(count, end)
        else:
            path.add(count, piece.once, end)
        for key, clocks in own.items():
            stalls[key] += count * clocks / max(1, piece.rounds)
    return Chain(path.clocks(fill), stalls, together, last.way)


class _Step(NamedTuple):
    """An instruction as the walk needs it, which passes it several times."""

    of: Instruction
    results: tuple[str, ...]
    operands: tuple[str, ...]
    writes: bool
    accesses: bool
    barrier: bool
    copies: AsyncStep | None
    slots: int
    wait: float
    why: str
    product: float
    products: AsyncStep | None
    asked: Mapping[str, float]
    spin: float
    slow_path: bool


def _step(
    i: Instruction, memory: Memory, warps: float, times: Mapping[int, int], spin: float
) -> _Step:
    results, operands = registers(i.text)
    wait, why = _latency(i, memory.dram)
    return _Step(
        of=i,
        results=results,
        operands=operands,
        writes=any(a.kind in WRITES for a in i.accesses),
        accesses=bool(i.accesses),
        barrier=joins_block(i.opcode) or waits_at_barrier(i.opcode),
        copies=copy_step(i.opcode),
        slots=0 if is_removed(i.opcode) or not issues(i) else slots_of(i.opcode),
        wait=wait,
        why=why,
        product=product_clocks(i),
        products=product_step(i.opcode),
        asked=asked(i, times[i.index], warps, memory),
        spin=spin,
        slow_path=has_slow_path(i.opcode),
    )


def _walk(code: Sequence[_Step], warp: _Warp, start: float, dram: float, stalls: Stalls) -> float:
    """The clock at which all of a piece of code is issued."""
    stored = loaded = fence = last = gate = start
    phase = Phase(start)
    for i in code:
        issue, reason = gate, WAIT
        phase.add(i.asked)
        for name in i.operands:
            clock, why = warp.ready.get(name, (start, WAIT))
            if clock > issue:
                issue, reason = clock, why
        if i.writes:
            issue = stored = max(issue, stored, loaded, fence)
        elif i.accesses:
            issue = max(issue, stored, fence)
            loaded = max(loaded, issue)
        if i.barrier:
            clocks = c.CLUSTER_CLOCKS if joins_cluster(i.of.opcode) else c.BARRIER_CLOCKS
            issue = max(issue, stored, loaded, last, phase.end()) + clocks
            fence, reason = issue, BARRIER
            phase.restart(issue)
        elif i.product or i.products is not None:
            issue = gate = _product(i, warp, issue, phase)
        elif i.copies is not None:
            issue, fence, reason = _copy(i.of, i.copies, warp, (issue, fence), dram)
        if i.slow_path:
            issue = max(issue, last)
            gate = issue + i.wait
        if i.spin:  # a loop: nothing after it begins before its end
            issue, reason = max(issue, last) + i.spin, SHORT
            gate = issue
        if issue > last + 1:
            key = i.of.index, reason
            stalls[key] = stalls.get(key, 0.0) + issue - last - 1
        last = max(last, issue)
        for name in i.results:
            warp.ready[name] = issue + i.wait, i.why
    return max(last, phase.end(), start + sum(i.slots for i in code))


def _product(i: _Step, warp: _Warp, issue: float, phase: Phase) -> float:
    """Issue a product of a warpgroup or wait for all of them: the clock after it."""
    if i.products is AsyncStep.WAIT:
        # While some are left, the tensor cores have work.
        if _left(i.of):
            return issue
        issue = max(issue, warp.products, phase.end())
        phase.restart(issue)
    elif i.product:
        # The time that products take together is that of the tensor cores, a unit.
        warp.products = max(warp.products, issue + c.TENSOR_CLOCKS + i.product)
    return issue


def _left(i: Instruction) -> int:
    """The number of groups that an instruction does not wait for."""
    digits = [word for word in i.text.rstrip("; ").split() if word.isdigit()]
    return int(digits[-1]) if digits else 0


def _copy(
    i: Instruction, step: AsyncStep, warp: _Warp, at: tuple[float, float], dram: float
) -> tuple[float, float, str]:
    """Issue a copy, close a group of copies, or wait for one: (issue, fence, reason)."""
    issue, fence = at
    if step is AsyncStep.WAIT:
        left = _left(i)
        done = warp.groups[-1 - left] if len(warp.groups) > left else issue
        return max(issue, done), max(fence, done), LONG
    if step is AsyncStep.COMMIT:
        warp.groups.append(warp.copies)
        return issue, fence, WAIT
    far = [a for a in i.accesses if a.space == "global"]
    latency = max((access_clocks(a, dram) for a in far), default=0.0)
    warp.copies = max(warp.copies, issue + latency)
    return issue, fence, WAIT


def _latency(i: Instruction, dram: float) -> tuple[float, str]:
    """Clocks until the result of an instruction can be used, and the reason of that wait."""
    if i.accesses:
        waited = [a for a in i.accesses if a.kind in WAITED]
        clocks = max((access_clocks(a, dram) for a in waited), default=0.0)
        near = all(a.space == "shared" for a in waited)
        return clocks, SHORT if near else LONG
    unit = i.work[0]
    if is_removed(i.opcode):
        return 0.0, WAIT
    if unit.startswith("tensor"):
        return c.TENSOR_CLOCKS, WAIT
    if has_slow_path(i.opcode):
        steps = c.UNIT_CLOCKS.get(unit, 0.0) * (slots_of(i.opcode) - 1)
        return c.UNIT_CLOCKS["special"] + steps, WAIT
    # What becomes several instructions, such as a division, is a chain of them.
    clocks = c.UNIT_CLOCKS.get(unit, 0.0) * slots_of(i.opcode)
    return clocks, SHORT if unit == "special" else WAIT


def access_clocks(a: Access, dram: float) -> float:
    """The latency of an access: of the levels at which its sectors are found, on average."""
    if a.space == "cluster":
        return c.OTHER_BLOCK_CLOCKS
    if a.space == "shared":
        return c.SHARED_CLOCKS + max(0.0, a.wavefronts / a.requests - 1)
    if a.kind == "atomic":
        return c.ATOMIC_CLOCKS
    missed = a.sectors_missed / a.sectors if a.sectors else 0.0
    beyond = (c.L2_CLOCKS - c.L1_CLOCKS) + dram * (c.DRAM_CLOCKS - c.L2_CLOCKS)
    return c.L1_CLOCKS + missed * beyond
