"""Registers that a warp computes again when it resumes, instead of saving them.

A kernel computes indices and addresses from parameters, from the place of the
block and from the number of the warp, and reads them after every barrier. Such a value
costs a few scalar instructions where it is read, and nothing where it is not: saving it costs a
store at every barrier, and a load that must wait for the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from weft.device.sim.analyse.form import INDEXED
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.special import STEADY
from weft.device.sim.analyse.waits import is_block_barrier
from weft.device.sim.emit import branch_predicates
from weft.device.sim.emit.registers import Registers
from weft.device.sim.emit.special_values import Specials
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Executing, Located
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import FloatImm, Imm, Instruction, Mem, Operand, Reg, Special, Sym

LONGEST = 8
"""The maximum number of instructions to recompute a register."""
SHORT = 4
"""The maximum for a register that every block recomputes, if it reads the register."""
_ROWS = frozenset(
    {
        ResultForm.COPY,
        ResultForm.CONVERSION,
        ResultForm.ADDRESS,
        ResultForm.SUM,
        ResultForm.DIFFERENCE,
        ResultForm.PRODUCT,
        ResultForm.WIDE_PRODUCT,
        ResultForm.PRODUCT_SUM,
        ResultForm.WIDE_PRODUCT_SUM,
        ResultForm.LEFT_SHIFT,
        ResultForm.RIGHT_SHIFT,
        ResultForm.AND,
        ResultForm.OR,
        ResultForm.XOR,
    }
)
"""Rows that are cheap where their result is a scalar."""


class Recomputing(Executing, Located, Protocol):
    """The emitter that evaluates an instruction again."""

    watch: Watcher
    registers: Registers
    predicates: branch_predicates.Predicates
    specials: Specials

    def evaluate(self, ins: Instruction) -> None:
        """Emit the instruction without its guard and without an observer."""


class Recomputed:
    """The registers of a program under emission that need not be saved."""

    def __init__(self, e: Recomputing) -> None:
        self.e = e
        code = [ins for block in e.program.graph.blocks for ins in block.code]
        self._order = {ins.index: i for i, ins in enumerate(code)}
        self.values = _plan(e.program, code)
        """Register -> the instructions that compute it, in order."""
        self.comparisons = _comparisons(e.program, code, self.values)
        """Predicate -> the comparison that computes it."""
        # Without barriers, a warp rarely resumes: the values are kept, and computed again only to
        # be compared.
        self.sources = self.values if any(map(is_block_barrier, code)) else {}

    def without(self, names: Iterable[str]) -> set[str]:
        """The subset of these registers that must be saved."""
        return {x for x in names if x not in self.sources and x not in self.comparisons}

    def outside_of_frame(self) -> tuple[dict[str, list[Instruction]], dict[str, Instruction]]:
        """The values and comparisons that a warp need not have computed before it reads them.

        A register in the frame is not computed again: a warp that is skipped must not miss it.
        """
        in_frame = self.e.registers.may_be_resident
        values = {x: code for x, code in self.sources.items() if not in_frame(x)}
        return values, {x: ins for x, ins in self.comparisons.items() if not in_frame(x)}

    def resume(self, names: Iterable[str]) -> None:
        """After a suspension, recompute the registers that no block recomputes itself."""
        self._emit(x for x in names if len(self.sources.get(x, ())) > SHORT)

    def begin(self, block: BasicBlock) -> None:
        """At the start of a block, recompute the short values that it reads or compares."""
        e = self.e
        used: set[str] = set()
        watched = e.watch.reads(block)
        for ins in [*block.code, *([block.last] if block.last else [])]:
            used.update(e.program.uses(ins), watched.get(ins.index, ()))
        own = {r for ins in block.code for r in e.program.defs(ins)}
        compared = sorted((used - own) & self.comparisons.keys())
        values = {x for x in used if 0 < len(self.sources.get(x, ())) <= SHORT}
        for x in compared:
            values.update(r for r in e.program.uses(self.comparisons[x]) if r in self.values)
        self._emit(values - own)
        for x in compared:
            e.predicates.settle(self.comparisons[x])

    def compare(self, ins: Instruction) -> branch_predicates.LanePredicate:
        """Emit one of `comparisons` here."""
        self._emit(x for x in self.e.program.uses(ins) if x in self.values)
        return self.e.predicates.ends(ins)

    def _emit(self, names: Iterable[str]) -> None:
        e = self.e
        steps = {
            ins.index: ins
            for name in sorted(names)
            if not any(p.resident for p in e.registers.of(name))
            for ins in self.values[name]
        }
        # Special registers that were read where the warp was suspended are not known here.
        saved, e.specials.values = (e.ins, e.specials.values), {}
        for index in sorted(steps, key=self._order.__getitem__):
            e.evaluate(steps[index])
        e.ins, e.specials.values = saved


def _single(
    program: KernelProgram, code: Sequence[Instruction]
) -> Iterator[tuple[str, Instruction]]:
    """Registers written once, and before they are read: the same value wherever computed."""
    writes = Counter(r for ins in code for r in program.defs(ins))
    unwritten = program.graph.live_in[0]
    for ins in code:
        dest = ins.operands[0] if ins.operands else None
        if not isinstance(dest, Reg) or program.defs(ins) != [dest.name] or ins.guard is not None:
            continue
        if writes[dest.name] == 1 and dest.name not in unwritten:
            yield dest.name, ins


def _plan(program: KernelProgram, code: Sequence[Instruction]) -> dict[str, list[Instruction]]:
    out: dict[str, list[Instruction]] = {}
    for dest, ins in _single(program, code):
        form = program.forms[dest]
        if form.const is not None or form.kind > INDEXED or not _is_cheap(program, ins):
            continue
        sources = [x for x in program.uses(ins) if program.forms[x].const is None]
        if all(x in out for x in sources):
            steps = {x.index: x for name in sources for x in out[name]}
            if len(steps) < LONGEST:
                out[dest] = [*steps.values(), ins]
    return out


def _comparisons(
    program: KernelProgram, code: Sequence[Instruction], values: Mapping[str, object]
) -> dict[str, Instruction]:
    """Predicates that scalars settle where all lanes agree, of values that are in `values`."""
    return {
        dest: ins
        for dest, ins in _single(program, code)
        if branch_predicates.settles(program, ins)
        and all(x in values or program.forms[x].const is not None for x in program.uses(ins))
        and all(_is_steady(x) for x in ins.operands[1:])
    }


def _is_cheap(program: KernelProgram, ins: Instruction) -> bool:
    d = program.decoded[ins.index]
    row, operands = d.row, ins.operands[1:]
    if row.form is ResultForm.LOADED:
        # Parameters do not change while a kernel runs.
        return d.space == "param" and all(_is_parameter(program, x) for x in operands)
    return row.form in _ROWS and all(_is_steady(x) for x in operands)


def _is_parameter(program: KernelProgram, operand: Operand) -> bool:
    if not isinstance(operand, Mem) or not isinstance(operand.base, Sym):
        return False
    return program.symbols.get(operand.base.name, ("",))[0] == "param"


def _is_steady(operand: Operand) -> bool:
    if isinstance(operand, Special):
        return operand.name.partition(".")[0] in STEADY
    return isinstance(operand, Reg | Imm | FloatImm | Sym)
