"""Registers of products in progress: found in the control flow, without running it.

Between a `wgmma` and the `wgmma.wait_group` that covers it, its accumulators belong to the tensor
cores, and the registers of A must not change. A product sees what instructions have written to its
registers only after a `wgmma.fence`. Compilers copy registers around products (`mov`), which is
no access: the copy is in the same state as what it copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.tools.sanitizer.layout import FindingKind
from weft.ptx import cfg
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Async, AsyncStep, Completion, ResultForm
from weft.ptx.isa.matrix.warpgroup import ISSUE, operand
from weft.ptx.model import Imm, Instruction
from weft.records import dataclass

_COMMIT = Async(AsyncStep.COMMIT, Completion.PRODUCTS)
_WAIT = Async(AsyncStep.WAIT, Completion.PRODUCTS)
_OLDEST = 16
"""Groups are counted up to this number; older ones are alike."""

Pending = dict[str, tuple[int, int]]
"""Register -> (groups committed since its product, the product's instruction)."""


Misuse = tuple[int, int, int]
"""A finding: its kind, the instruction, and the other one, or -1."""


@dataclass
class _State:
    """The registers before an instruction.

    sums, left  accumulators, and registers of A, of products that were not waited for
    fresh       registers written since the last fence, each with the instruction
    fenced      there was a fence on every path
    """

    sums: Pending
    left: Pending
    fresh: dict[str, int]
    fenced: bool

    def copy(self) -> _State:
        return _State(dict(self.sums), dict(self.left), dict(self.fresh), self.fenced)

    def join(self, other: _State) -> bool:
        """Add what holds on another path; return whether anything changed."""
        before = (dict(self.sums), dict(self.left), set(self.fresh), self.fenced)
        for mine, theirs in ((self.sums, other.sums), (self.left, other.left)):
            for name, age in theirs.items():
                mine[name] = min(mine.get(name, age), age)
        self.fresh = other.fresh | self.fresh
        self.fenced = self.fenced and other.fenced
        return before != (self.sums, self.left, set(self.fresh), self.fenced)


def misuses(program: KernelProgram) -> list[Misuse]:
    """The misuses of registers in a kernel, in the order of its code."""
    blocks = program.graph.blocks
    if not any(_async(ins) == ISSUE for block in blocks for ins in block.code):
        return []
    entry: dict[int, _State] = {0: _State({}, {}, {}, fenced=False)}
    work = [0]
    while work:
        number = work.pop()
        state = entry[number].copy()
        for ins in _code(blocks[number]):
            _step(program, state, ins)
        for following in blocks[number].successors:
            if following == cfg.EXIT:
                continue
            known = entry.get(following)
            if known is None:
                entry[following] = state.copy()
            elif not known.join(state):
                continue
            work.append(following)
    found: dict[tuple[int, int], Misuse] = {}
    for number, state in entry.items():
        for ins in _code(blocks[number]):
            for misuse in _step(program, state, ins):
                found.setdefault(misuse[:2], misuse)
    return sorted(found.values(), key=lambda m: m[1])


def _code(block: cfg.BasicBlock) -> Iterator[Instruction]:
    yield from block.code
    if block.last is not None:
        yield block.last


def _async(ins: Instruction) -> Async | None:
    return decode(ins).row.async_


def _step(program: KernelProgram, state: _State, ins: Instruction) -> list[Misuse]:
    """Apply an instruction to the state; return its misuses."""
    match _async(ins):
        case step if step == ISSUE:
            return _product(state, ins)
        case step if step == _COMMIT:
            state.sums, state.left = _older(state.sums), _older(state.left)
        case step if step == _WAIT:
            pending = ins.operands[0]
            assert isinstance(pending, Imm), "the row takes nothing else"
            state.sums = {r: x for r, x in state.sums.items() if x[0] <= pending.value}
            state.left = {r: x for r, x in state.left.items() if x[0] <= pending.value}
        case _ if decode(ins).fences_products:
            state.fresh, state.fenced = {}, True
        case _:
            return _other(program, state, ins)
    return []


def _older(pending: Pending) -> Pending:
    return {r: (min(age + 1, _OLDEST), index) for r, (age, index) in pending.items()}


def _product(state: _State, ins: Instruction) -> list[Misuse]:
    sums, left = (cfg.registers(x) for x in ins.operands[:2])
    metadata = operand(ins, "e")
    left = left if len(left) > 1 else []  # one register is a descriptor
    read = [*left, *(cfg.registers(metadata) if metadata is not None else [])]
    out = [(FindingKind.SUM_USED, ins.index, state.sums[r][1]) for r in read if r in state.sums]
    fresh = [state.fresh[r] for r in (*sums, *read) if r in state.fresh]
    if fresh or not state.fenced:
        out.append((FindingKind.UNFENCED_REGISTER, ins.index, fresh[0] if fresh else -1))
    state.sums |= dict.fromkeys(sums, (0, ins.index))
    state.left |= dict.fromkeys(read, (0, ins.index))
    return out


def _other(program: KernelProgram, state: _State, ins: Instruction) -> list[Misuse]:
    defs, uses = program.defs(ins), program.uses(ins)
    if decode(ins).row.form is ResultForm.COPY:
        pending = [state.sums[r] for r in uses if r in state.sums]
        fresh = [state.fresh[r] for r in uses if r in state.fresh]
        for r in defs:
            _forget(state, r)
            if pending:
                state.sums[r] = min(pending)
            if fresh:
                state.fresh[r] = min(fresh)
        return []
    out = [
        (FindingKind.SUM_USED, ins.index, state.sums[r][1])
        for r in (*uses, *defs)
        if r in state.sums
    ]
    out += [
        (FindingKind.LEFT_CHANGED, ins.index, state.left[r][1]) for r in defs if r in state.left
    ]
    for r in defs:
        _forget(state, r)
        state.fresh[r] = ins.index
    return out


def _forget(state: _State, name: str) -> None:
    """Remove a register, which gets a new value."""
    for table in (state.sums, state.left, state.fresh):
        table.pop(name, None)
