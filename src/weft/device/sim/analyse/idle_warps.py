"""Phases in which all warps from some number on are idle: `if (threadIdx.x < 64) ...`.

Such a warp goes from barrier to barrier through branches alone. If each of them compares
threadIdx.x with a value that is the same in all warps, and the warp takes the side of the large
numbers, all later warps take the same path: none of them needs to run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from weft.device.sim.analyse.phases import ENDED, START, Phases
from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.cfg import EXIT, BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Control, ResultForm, Waits
from weft.ptx.model import Instruction, Operand, Reg, Special
from weft.records import dataclass

_LARGE = {
    "gt": True, "hi": True, "ge": True, "hs": True, "lt": False, "lo": False, "le": False,
    "ls": False,
}  # fmt: skip
"""A comparison of threadIdx.x with a bound -> its result for large numbers."""
MIRRORED = {
    "lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "lo": "hi", "hi": "lo", "ls": "hs", "hs": "ls",
    "eq": "eq", "ne": "ne",
}  # fmt: skip
"""The same comparison with its sides exchanged."""
_OF_THE_BLOCK = ("ctaid", "ntid", "nctaid")

Values = Mapping[str, Sequence[Instruction]]
"""Registers -> the instructions that compute them from parameters and special registers alone."""


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison that decides a branch; idle warps go where it has this value in all lanes."""

    ins: Instruction
    value: bool


@dataclass(frozen=True, slots=True)
class Idle:
    """A warp that also passes these tests is idle up to place `end`; so are all later warps."""

    tests: tuple[Test, ...]
    end: int


def find(
    program: KernelProgram, phases: Phases, values: Values, comparisons: Mapping[str, Instruction]
) -> dict[tuple[int, int], Idle]:
    """The first branch of each phase that has idle warps, as (block, successor).

    `values` and `comparisons` are registers that each block computes for itself.
    """
    graph = program.graph
    out: dict[tuple[int, int], Idle] = {}
    sources = Counter(x for block in graph.blocks for x in block.successors)
    for phase, (barrier, _) in enumerate(phases.sites, START + 1):
        end, first = phases.outcome(phase), graph.blocks[barrier].successors[0]
        if end is None or first == EXIT or sources[first] != 1:
            continue
        path = _follow(program, first, phases, end, values, comparisons)
        if path:
            out[first, path[0][0]] = Idle(tuple(test for _, test in path[1:]), end)
    return out


def _follow(
    program: KernelProgram,
    first: int,
    phases: Phases,
    end: int,
    values: Values,
    comparisons: Mapping[str, Instruction],
) -> list[tuple[int, Test]]:
    """The branches from `first` to the end of its phase, each with the successor of idle warps."""
    blocks = program.graph.blocks
    last = EXIT if end == ENDED else phases.sites[end - 1][0]
    live: Collection[str] = (
        () if last == EXIT else program.graph.live_in[blocks[last].successors[0]]
    )
    kept = {x for x in live if x not in values and x not in comparisons}
    out: list[tuple[int, Test]] = []
    x = first
    while x != EXIT:
        block = blocks[x]
        code = block.code[:-1] if x == last else block.code
        if not all(_is_idle(program, ins, kept, values) for ins in code):
            return []
        if x == last:
            return out
        branch = _branch(program, block, values, comparisons)
        if branch is not None:
            out.append(branch)
        elif len(block.successors) != 1 or x == first:
            return []
        following = branch[0] if branch is not None else block.successors[0]
        if following != EXIT and following <= x:
            return []
        x = following
    return out if last == EXIT else []


def _is_idle(
    program: KernelProgram, ins: Instruction, kept: Collection[str], values: Values
) -> bool:
    """Return whether the instruction changes nothing that is visible after the phase."""
    defs, row = program.defs(ins), decode(ins).row
    if any(x in kept for x in defs):
        return False
    if defs and all(x in values for x in defs):
        return True
    plain = row.waits is Waits.NOTHING and row.control is Control.NEXT and not row.async_
    return bool(defs) and plain and not row.warp and not row.effects


def _branch(
    program: KernelProgram,
    block: BasicBlock,
    values: Values,
    comparisons: Mapping[str, Instruction],
) -> tuple[int, Test] | None:
    """The successor of warps with large numbers, and the outcome of the branch's test for them."""
    last = block.last
    if last is None or last.guard is None or len(block.successors) != 2:
        return None
    ins = comparisons.get(last.guard)
    value = _large(program, ins, values) if ins is not None else None
    if ins is None or value is None:
        return None
    return block.successors[int(value == last.guard_negated)], Test(ins, value)


def _large(program: KernelProgram, ins: Instruction, values: Values) -> bool | None:
    """The result of a comparison for large threadIdx.x, if it holds for all larger ones, too."""
    a, b = ins.operands[1:3]
    order = program.decoded[ins.index].comparison
    if not is_thread(program, a, values):
        a, b, order = b, a, MIRRORED.get(order, "")
    if not is_thread(program, a, values) or not _is_common(program, b, values):
        return None
    if order in ("eq", "ne"):
        form = program.form_of(b)
        # The first warp has the thread that differs from all others.
        own = form is not None and form.const is not None and 0 <= form.const < 32
        return order == "ne" if own else None
    return _LARGE.get(order)


def is_thread(program: KernelProgram, operand: Operand, values: Values) -> bool:
    """Return whether the operand is threadIdx.x, which grows with the number of the warp."""
    if isinstance(operand, Reg):
        steps = values.get(operand.name, ())
        if len(steps) != 1 or decode(steps[0]).row.form is not ResultForm.COPY:
            return False
        operand = steps[0].operands[1]
    one_row = program.shape[1] == program.shape[2] == 1
    return one_row and isinstance(operand, Special) and operand.name == "tid.x"


def _is_common(program: KernelProgram, operand: Operand, values: Values) -> bool:
    """Return whether the operand has the same value in all warps of a block."""
    form = program.form_of(operand)
    if form is not None and form.const is not None:
        return True
    steps = values.get(operand.name, ()) if isinstance(operand, Reg) else ()
    specials = [x for ins in steps for x in ins.operands if isinstance(x, Special)]
    return bool(steps) and all(x.name.startswith(_OF_THE_BLOCK) for x in specials)
