"""Index overflow: a 32-bit sum or product that is widened to an address and did not fit.

Where a basic block widens a 32-bit value and accesses memory with it, the value is computed again
in 64 bits, from the operands of the additions and multiplications that made it. A value that wraps
and comes back (`i - 1 + n` of unsigned numbers) is right in the end and is not reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.device.sim.analyse.form import AFFINE, UNIFORM
from weft.device.sim.analyse.lattice import adds_bits
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_block_barrier, spin_heads
from weft.device.sim.lane_sets import lane_table
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import FindingKind
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Val
from weft.ptx import cfg
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Imm, Instruction, Mem, Operand, Reg, Special

_DEEP = 4
"""The maximum number of instructions back from the widening."""
_PRODUCTS = (ResultForm.PRODUCT, ResultForm.PRODUCT_SUM)
_WIDE_PRODUCTS = (ResultForm.WIDE_PRODUCT, ResultForm.WIDE_PRODUCT_SUM)
_SUMS = (ResultForm.SUM, ResultForm.DIFFERENCE, ResultForm.LEFT_SHIFT)
_SPREADS = (*_PRODUCTS, *_WIDE_PRODUCTS, *_SUMS, ResultForm.COPY, ResultForm.ADDRESS)
"""Operations through which a 64-bit value becomes an address."""


@dataclass(frozen=True)
class Node:
    """A 32-bit operation: its kind and operands, each a Node or an operand as written."""

    form: ResultForm
    operands: tuple[Node | Operand, ...]


def _operation(ins: Instruction) -> ResultForm | None:
    """A sum, difference, product or shift of 32 bits; None for anything else."""
    d = decode(ins)
    if ins.guard is not None or d.type not in ("s32", "u32", "b32"):
        return None
    form = d.row.form
    return form if form in (*_PRODUCTS, *_SUMS) else None


def _widened(ins: Instruction) -> tuple[Operand, bool] | None:
    """The operand that an instruction widens to 64 bits, and whether as a signed number."""
    d = decode(ins)
    form, signed = d.row.form, d.type == "s32"
    scaled = form in _WIDE_PRODUCTS and isinstance(ins.operands[2], Imm)
    if scaled and d.type in ("s32", "u32"):
        return ins.operands[1], signed
    if form is ResultForm.CONVERSION and d.parts[1:] in (("s64", "s32"), ("u64", "u32")):
        return ins.operands[1], signed
    return None


class Overflow:
    """The checks of a kernel's blocks."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self.single = _once(program)
        graph = program.graph
        waits = any(is_block_barrier(i) for block in graph.blocks for i in block.code)
        self.only_live = waits or bool(program.scattered or spin_heads(graph))
        """True if registers that are not live are lost: where a warp may be suspended."""
        self.plan: dict[int, tuple[Node, bool]] = {}

    def reads(self, block: cfg.BasicBlock) -> dict[int, set[str]]:
        """The registers from which each value is computed again.

        Runs of instructions may become strips. A value that no later instruction of the block needs
        never leaves a strip, so nothing else may be read after it.
        """
        self.only_live = True
        self.block(block)
        return {index: _sources(tree) for index, (tree, _) in self.plan.items()}

    def block(self, block: cfg.BasicBlock) -> None:
        """Find the values to check in a block."""
        self.plan = {}
        made: dict[str, int] = {}
        for i, ins in enumerate(block.code):
            widened = _widened(ins)
            if widened is not None and isinstance(widened[0], Reg) and self._accessed(block, i):
                tree = self._tree(block, widened[0].name, made, _DEEP)
                if isinstance(tree, Node) and _multiplies(tree):
                    self.plan[ins.index] = tree, widened[1]
            for name in self.program.defs(ins):
                made[name] = i
            if is_block_barrier(ins):
                made = dict.fromkeys(made, i)  # a warp waits there: only live registers survive

    def _accessed(self, block: cfg.BasicBlock, at: int) -> bool:
        """Return whether the block then accesses memory with the widened value."""
        carried = set(self.program.defs(block.code[at]))
        for ins in block.code[at + 1 :]:
            bases = [
                o.base.name for o in ins.operands if isinstance(o, Mem) and isinstance(o.base, Reg)
            ]
            if ins.guard is None and carried.intersection(bases):
                return True
            uses = carried.intersection(self.program.uses(ins))
            if uses and decode(ins).row.form in _SPREADS:
                carried.update(self.program.defs(ins))
        return False

    def _tree(
        self, block: cfg.BasicBlock, name: str, made: dict[str, int], depth: int
    ) -> Node | Operand:
        """The computation of a register, as far as its sources still hold their values."""
        where = made.get(name, -1)
        ins = block.code[where] if where >= 0 else self.single.get(name)
        op = self._operation(ins) if ins is not None and depth else None
        if ins is None or op is None:
            return Reg(name)
        operands: list[Node | Operand] = []
        for source in ins.operands[1:]:
            if not isinstance(source, Reg):
                operands.append(source)
                continue
            if where >= 0 and made.get(source.name, -1) > where:
                return Reg(name)  # changed since
            if where < 0 and not self._is_there(block, source.name):
                return Reg(name)
            # Later definitions gave the sources other values.
            before = {k: v for k, v in made.items() if v < where} if where >= 0 else {}
            operands.append(self._tree(block, source.name, before, depth - 1))
        return Node(op, tuple(operands))

    def _is_there(self, block: cfg.BasicBlock, name: str) -> bool:
        """Return whether a register that is written once still holds its value in a block."""
        live = self.program.graph.live_in[block.index]
        return name in self.single and (not self.only_live or name in live)

    def _operation(self, ins: Instruction) -> ResultForm | None:
        """The operation of an instruction; an `or` of disjoint bits is an addition."""
        d = decode(ins)
        joins = d.row.form is ResultForm.OR and d.type == "b32"
        if joins and ins.guard is None:
            forms = [self.program.form_of(o) for o in ins.operands[1:]]
            known = [f for f in forms if f is not None]
            return ResultForm.SUM if len(known) == 2 and adds_bits(known) else None
        return _operation(ins)

    def check(self, w: Checking, ins: Instruction) -> None:
        """Check before a widening that the value fits."""
        if ins.index not in self.plan:
            return
        tree, signed = self.plan[ins.index]
        e, b = w.e, w.e.b
        lanes = e.executing()
        if not _affine(self.program, tree):
            wraps = e.bits_of(self._wraps(w, tree, signed, None)) & lanes
            with b.when(wraps.ne(0), rare=True):
                nothing = b.integer("i64", 0)
                report(b, w.p, FindingKind.OVERFLOW, w.me(wraps), nothing, nothing)
            return
        first = b.intrinsic("cttz", [lanes], extra="false") & 31
        last = b.integer("i32", 31) - (b.intrinsic("ctlz", [lanes], extra="false") & 31)
        for lane in (first, last):
            with b.when(self._wraps(w, tree, signed, lane) & lanes.ne(0), rare=True):
                nothing = b.integer("i64", 0)
                report(
                    b,
                    w.p,
                    FindingKind.OVERFLOW,
                    w.me(b.integer("i32", 1) << lane),
                    nothing,
                    nothing,
                )

    def _wraps(self, w: Checking, tree: Node, signed: bool, lane: Val | None) -> Val:
        """True at run time if the value differs in 32 bits, in one lane or in any.

        An unsigned value may have been computed from negative parts, so both readings must fail.
        """
        exact = self._exact(w, tree, True, lane)
        short = exact.trunc("i32")
        if signed:
            return exact.ne(short.sext("i64"))
        other = self._exact(w, tree, False, lane)
        return exact.ne(short.zext("i64")) & other.ne(short.zext("i64"))

    def _exact(self, w: Checking, tree: Node | Operand, signed: bool, lane: Val | None) -> Val:
        """The value in 64 bits, of one lane or of all."""
        e, b = w.e, w.e.b
        if not isinstance(tree, Node):
            if isinstance(tree, Imm):
                return b.splat(b.integer("i64", tree.value), 0 if lane is not None else 32)
            if lane is None:
                value = e.read_lanes(tree, "b32")
                return value.sext("i64") if signed else value.zext("i64")
            value = e.base(tree, "b32")
            form = e.program.form_of(tree)
            if form is not None and form.kind == AFFINE:
                table = lane_table(b, "i32", form.off)
                value = value + b.load("i32", 0, b.at(table, lane.zext("i64") << 2), 4)
            return value.sext("i64") if signed else value.zext("i64")
        x = [self._exact(w, o, signed, lane) for o in tree.operands]
        if tree.form is ResultForm.LEFT_SHIFT:
            return x[0] << (x[1] & 31)
        if tree.form in _PRODUCTS:
            product = x[0] * x[1]
            return product + x[2] if tree.form is ResultForm.PRODUCT_SUM else product
        return x[0] + x[1] if tree.form is ResultForm.SUM else x[0] - x[1]


def _once(program: KernelProgram) -> dict[str, Instruction]:
    """Registers with one definition, which is executed once at most."""
    looped = {m for members in program.graph.loops.values() for m in members}
    count: dict[str, int] = {}
    definitions: dict[str, Instruction] = {}
    for block in program.graph.blocks:
        for ins in block.code:
            for name in program.defs(ins):
                count[name] = count.get(name, 0) + 1
                if block.index not in looped:
                    definitions[name] = ins
    return {name: ins for name, ins in definitions.items() if count[name] == 1}


def _sources(tree: Node | Operand) -> set[str]:
    if isinstance(tree, Node):
        return {name for o in tree.operands for name in _sources(o)}
    return {tree.name} if isinstance(tree, Reg) else set()


def _multiplies(tree: Node | Operand) -> bool:
    return isinstance(tree, Node) and (
        tree.form in (*_PRODUCTS, ResultForm.LEFT_SHIFT)
        or any(_multiplies(o) for o in tree.operands)
    )


def _affine(program: KernelProgram, tree: Node | Operand) -> bool:
    """Return whether all its sources are known as a scalar and an offset of each lane."""
    if isinstance(tree, Node):
        return all(_affine(program, o) for o in tree.operands)
    if isinstance(tree, Imm):
        return True
    form = program.form_of(tree)
    return isinstance(tree, Reg | Special) and form is not None and form.kind in (UNIFORM, AFFINE)
