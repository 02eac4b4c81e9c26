"""Models the least time of one warp: its instructions wait for their operands.

The code is split at branches. Inside of a part, the assembler may reorder instructions, but not
past the operands that they need, and no load past a store that may write the same place. A part
ends when its last instruction is issued. A part that branches to its own start waits for the
results of the round before.

All latencies are those of an H200, or less where the assembler may merge instructions: a warp
takes at least this long, however many units are idle.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from weft.device.models import GpuModel
from weft.measure.profile.cliffs import fit
from weft.measure.profile.work import branches, expands
from weft.values.profile import Access, Instruction, Profile

L2_CLOCKS, _L1_CLOCKS, _SHARED_CLOCKS = 283, 32, 23
_LATENCY: Mapping[str, int] = {"fp16": 4, "fp32": 4, "fp64": 4, "special": 16, "integer": 2}
"""Unit -> clocks until a result can be used; two integer operations may become one."""
_TENSOR = 16
_FREE = ("move",)
"""Units of instructions that the assembler removes."""
WAITED = ("load", "atomic", "matrix load", "fragment load")
"""Accesses whose result is a register."""
WRITES = ("store", "atomic", "reduction", "matrix store", "fragment store")

_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,;]+")
_REGISTER = re.compile(r"%[\w$]+")


def seconds(p: Profile, gpu: GpuModel) -> float:
    """The time of an average warp, as often as the resident warps are replaced by others."""
    warps = p.launch.blocks * -(-p.launch.threads // gpu.warp_size)
    waves = p.launch.blocks / max(1, fit(p.launch, gpu).blocks * gpu.sms)
    return _clocks(p) / warps * max(1.0, waves) / (gpu.boost_mhz * 1e6)


def _clocks(p: Profile) -> float:
    """The clocks of all warps of all launches, added up."""
    labels = {text.strip()[:-1]: line for line, text in p.ptx if text.strip().endswith(":")}
    before, total, times = 0, 0.0, needed(p)
    for part in parts(p.instructions):
        target = labels.get(branch_target(part[-1].text), 0)
        # The label before the first instruction, with no other instruction between.
        loops = before < target <= part[0].ptx_line
        total += times[part[0].index] * _part_clocks(part, loops)
        before = part[-1].ptx_line
    return total


def needed(p: Profile) -> Mapping[int, int]:
    """Executions of instructions, without those of loops that test an mbarrier in vain.

    Their number depends on the order in which the simulator runs warps, and a GPU's warps sleep.
    """
    times = {i.index: i.executions for i in p.instructions}
    for part in parts(p.instructions):
        polls = sum(i.polls for i in part)
        times |= {i.index: max(0, i.executions - polls) for i in part if polls}
    return times


def parts(instructions: Sequence[Instruction]) -> Iterator[Sequence[Instruction]]:
    """The instructions that ran, split at branches and where another number of warps goes on."""
    ran = [i for i in instructions if i.executions]
    ends = [n for n, (a, b) in enumerate(pairwise(ran), 1) if _splits(a, b)]
    for start, end in pairwise([0, *ends, len(ran)]):
        if end > start:
            yield ran[start:end]


def _splits(a: Instruction, b: Instruction) -> bool:
    return branches(a.opcode) or a.executions != b.executions


def branch_target(text: str) -> str:
    """The label that a branch names."""
    return text.rstrip("; \t").rpartition(" ")[2].strip()


def _part_clocks(part: Sequence[Instruction], loops: bool) -> float:
    ready: dict[str, float] = {}
    once = _end(part, ready, 0.0)
    return _end(part, ready, once) - once if loops else once


def _end(part: Sequence[Instruction], ready: dict[str, float], start: float) -> float:
    """The clock at which all of a part is issued; `ready` has the registers with a result."""
    slots = sum(slots_of(i.opcode) for i in part if i.work[0] not in _FREE and issues(i))
    stored, loaded, last = start, start, start
    for i in part:
        results, operands = registers(i.text)
        issue = max((ready.get(name, start) for name in operands), default=start)
        issue = max(issue, start)
        kinds = [a.kind for a in i.accesses]
        if any(kind in WRITES for kind in kinds):
            issue = stored = max(issue, stored, loaded)
        elif kinds:
            issue = max(issue, stored)
            loaded = max(loaded, issue)
        last = max(last, issue)
        for name in results:
            ready[name] = issue + _wait(i)
    return max(last, start + slots)


def issues(i: Instruction) -> bool:
    """False for loads of parameters, which are operands of other instructions."""
    return i.work[0] != "memory" or bool(i.accesses)


@functools.lru_cache(maxsize=1 << 12)
def slots_of(opcode: str) -> int:
    """Issue slots of an instruction."""
    return expands(opcode)


def _wait(i: Instruction) -> float:
    """Clocks from the issue of an instruction to that of one that uses its result."""
    if i.accesses:
        return max((_access_clocks(a) for a in i.accesses if a.kind in WAITED), default=0.0)
    unit = i.work[0]
    if unit.startswith("tensor"):
        return _TENSOR
    return _LATENCY.get(unit, 0) + slots_of(i.opcode) - 1


def _access_clocks(a: Access) -> float:
    if a.space == "shared":
        return _SHARED_CLOCKS
    if a.kind == "atomic":
        return L2_CLOCKS
    missed = a.sectors_missed / a.sectors if a.sectors else 0.0
    return _L1_CLOCKS + missed * (L2_CLOCKS - _L1_CLOCKS)


@functools.lru_cache(maxsize=1 << 14)
def registers(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers that an instruction writes, and those that it reads."""
    guard, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
    _, _, listed = rest.strip().partition(" ")
    operands = [part.strip() for part in _OPERAND.findall(listed)]
    operands = [part for part in operands if part]
    # A store has its address first; all else begins with its result.
    written = operands[:1] if operands and not operands[0].startswith("[") else []
    read = [guard, *operands[len(written) :]]
    return tuple(_found(written)), tuple(_found(read))


def _found(operands: Sequence[str]) -> Iterator[str]:
    for part in operands:
        yield from _REGISTER.findall(part)
