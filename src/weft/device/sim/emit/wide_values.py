"""Instructions on values that are stored as several scalars: see `form`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.device.sim.address import Stripes, Wide
from weft.device.sim.analyse.form import AFFINE, INDEXED, SPARSE, STRIPED, ZERO, Form
from weft.device.sim.protocols import InstructionOperands
from weft.ir import Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Instruction, Operand, Reg


class WideRules:
    """Rules by which instructions build a wide form."""

    def __init__(self, e: InstructionOperands) -> None:
        self.e = e
        self.rules: Mapping[ResultForm, Callable[[Instruction, Form], Wide]] = {
            ResultForm.COPY: self._mov,
            ResultForm.CONVERSION: self._cvt,
            # Global addresses are generic already; `convert_address` adds the start of a window.
            ResultForm.ADDRESS: self._mov,
            ResultForm.SUM: self._add,
            ResultForm.DIFFERENCE: self._sub,
            ResultForm.LEFT_SHIFT: self._shl,
            ResultForm.PRODUCT: self._mul,
            ResultForm.WIDE_PRODUCT: self._mul,
            ResultForm.PRODUCT_SUM: self._mad,
            ResultForm.WIDE_PRODUCT_SUM: self._mad,
        }

    def build(self, ins: Instruction, result: Form) -> Wide:
        return self.rules[decode(ins).row.form](ins, result)

    def _operand(self, operand: Operand) -> Wide | None:
        """A source that already is wide."""
        form = self.e.program.form_of(operand)
        if isinstance(operand, Reg) and form is not None and form.kind in (INDEXED, SPARSE):
            return self.e.read_wide(operand.name)
        return None

    def _widened(self, operand: Operand, result: Form) -> Wide:
        """A 32-bit source, widened."""
        e = self.e
        kept = (result.off, result.scale, result.signed)
        if result.rows != ZERO:
            assert isinstance(operand, Reg)
            x = e.read_stripes(operand.name)
            return Wide(e.b.integer("i64", 0), x.base, *kept, x.step, result.rows)
        index = (e.base if result.kind == INDEXED else e.read)(operand, "b32")
        return Wide(e.b.integer("i64", 0), index, *kept)

    def _cvt(self, ins: Instruction, result: Form) -> Wide:
        return self._operand(ins.operands[1]) or self._widened(ins.operands[1], result)

    def _mov(self, ins: Instruction, result: Form) -> Wide:
        w = self._operand(ins.operands[1])
        assert w is not None
        return w

    def _shift(self, w: Wide, amount: Val, sign: int = 1) -> Wide:
        base = w.base + amount if sign == 1 else w.base - amount
        return replace(w, base=base)

    def _add(self, ins: Instruction, result: Form, sign: int = 1) -> Wide:
        a, b = ins.operands[1], ins.operands[2]
        w = self._operand(a)
        if w is not None:
            return self._shift(w, self.e.read(b, "b64"), sign)
        w = self._operand(b)
        # `lattice` gives no wide form where the wide value is subtracted.
        assert w is not None and sign == 1
        return self._shift(w, self.e.read(a, "b64"))

    def _sub(self, ins: Instruction, result: Form) -> Wide:
        return self._add(ins, result, -1)

    def _times(self, w: Wide, c: int) -> Wide:
        return replace(w, base=w.base * c, scale=w.scale * c)

    def _shl(self, ins: Instruction, result: Form) -> Wide:
        w, n = self._operand(ins.operands[1]), self.e.program.form_of(ins.operands[2])
        assert w is not None and n is not None and n.const is not None
        return self._times(w, 1 << n.const)

    def _factor(self, ins: Instruction) -> tuple[Operand, int | None]:
        """The unknown one of two multiplied sources, and the value of the known one."""
        a, b = ins.operands[1], ins.operands[2]
        form = self.e.program.form_of(b)
        if form is not None and form.const is not None:
            return a, form.const
        form = self.e.program.form_of(a)
        return b, form.const if form is not None else None

    def _product(self, ins: Instruction, result: Form) -> Wide | None:
        """The product's wide form, or None when it is uniform."""
        other, c = self._factor(ins)
        if c is None:
            return None
        w = self._operand(other)
        if w is not None:
            return self._times(w, c)
        form = self.e.program.form_of(other)
        if not decode(ins).wide or form is None or form.kind == 0:
            return None
        return self._widened(other, result)

    def _mul(self, ins: Instruction, result: Form) -> Wide:
        w = self._product(ins, result)
        assert w is not None
        return w

    def _mad(self, ins: Instruction, result: Form) -> Wide:
        w = self._product(ins, result)
        addend = ins.operands[3]
        if w is not None:
            return self._shift(w, self.e.read(addend, "b64"))
        w = self._operand(addend)
        assert w is not None
        # The product is uniform here, and only the addend is wide.
        e, d = self.e, decode(ins)
        kind = d.type
        a, b = (e.read(o, kind) for o in ins.operands[1:3])
        if d.wide:
            a, b = (x.sext("i64") if kind[0] == "s" else x.zext("i64") for x in (a, b))
        return self._shift(w, a * b)


class StripedRules:
    """Rules by which instructions build a striped form: a base and a step."""

    def __init__(self, e: InstructionOperands) -> None:
        self.e = e

    def build(self, ins: Instruction, result: Form) -> Stripes:
        row = decode(ins).row.form
        base, step = self._value(row, list(ins.operands[1:]))
        assert step is not None
        return Stripes(base, step, result.off, result.rows)

    def _value(self, row: ResultForm, operands: list[Operand]) -> tuple[Val, Val | None]:
        """The base and the step of a result; the step is None if it is affine."""
        if row in (ResultForm.COPY, ResultForm.CONVERSION):
            return self._source(operands[0])
        if row is ResultForm.PRODUCT_SUM:
            return self._sum(self._product(*operands[:2]), self._source(operands[2]), 1)
        if row is ResultForm.PRODUCT:
            return self._product(*operands)
        if row is ResultForm.LEFT_SHIFT:
            (base, step), n = self._source(operands[0]), self.e.program.form_of(operands[1])
            assert n is not None and n.const is not None and step is not None
            return base * (1 << n.const), step * (1 << n.const)
        a, b = (self._source(x) for x in operands)
        return self._sum(a, b, -1 if row is ResultForm.DIFFERENCE else 1)

    def _source(self, operand: Operand) -> tuple[Val, Val | None]:
        form = self.e.program.form_of(operand)
        if isinstance(operand, Reg) and form is not None and form.kind == STRIPED:
            x = self.e.read_stripes(operand.name)
            return x.base, x.step
        return self.e.base(operand, "b32"), None

    def _sum(
        self, a: tuple[Val, Val | None], b: tuple[Val, Val | None], sign: int
    ) -> tuple[Val, Val | None]:
        base = a[0] + b[0] if sign == 1 else a[0] - b[0]
        return base, a[1] if a[1] is not None else b[1]

    def _product(self, x: Operand, y: Operand) -> tuple[Val, Val | None]:
        """A product with a constant, or of a uniform and an affine value: its step is the first."""
        (a, step_a), (b, step_b) = self._source(x), self._source(y)
        if step_a is not None or step_b is not None:
            factor, step = (b, step_a) if step_a is not None else (a, step_b)
            assert step is not None
            return a * b, step * factor
        forms = [self.e.program.form_of(o) for o in (x, y)]
        affine = [f is not None and f.kind == AFFINE for f in forms]
        known = [f is not None and f.const is not None for f in forms]
        if not any(affine) or any(known):
            return a * b, None
        return a * b, b if affine[0] else a
