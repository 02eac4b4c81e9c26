"""Contraction: `mul` and `add` that become one `fma`, as in ptxas.

An `add` or `sub` without a rounding mode whose operand is the product of a `mul` without one is
rounded once on the hardware: ptxas 13 fuses it, for f16, f16x2, f32 and f64 alike, where the
product has no other use, through a `neg`, and taking the first operand where both are products.
A rounding mode on either (`mul.rn`) keeps them apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.ptx.cfg import registers
from weft.ptx.isa import control_of, decode
from weft.ptx.isa.columns import Control, ResultForm
from weft.ptx.model import FloatImm, Instruction, Label, Operand, PtxFunction, Reg
from weft.records import dataclass

TYPES = ("f16", "f16x2", "f32", "f64")
_SIGN = {32: 1 << 31, 64: 1 << 63}


@dataclass(slots=True)
class _Product:
    """a * b in a register, perhaps negated, while its factors still hold their values."""

    a: Operand
    b: Operand
    negated: bool
    flush: bool
    kind: str


def contract(function: PtxFunction) -> PtxFunction:
    """`function` with its products and sums fused where ptxas fuses them."""
    if not any(not isinstance(x, Label) and _is(x, ResultForm.PRODUCT) for x in function.body):
        return function
    out: list[Instruction | Label] = []
    products: dict[str, _Product] = {}
    factor_of: dict[str, set[str]] = {}
    fresh: dict[str, str] = {}
    mentions = Counter(
        r
        for x in function.body
        if not isinstance(x, Label)
        for o in x.operands
        for r in registers(o)
    )
    for item in function.body:
        if isinstance(item, Label):
            # Another path may enter here, with other values in the same registers.
            products.clear()
            factor_of.clear()
            out.append(item)
            continue
        done = [item]
        made: _Product | None = None
        # A guarded `mul` may leave the old value in place, and a saturated product is clamped
        # before the addition: neither is the product of an `fma`.
        if item.guard is None and _is(item, ResultForm.PRODUCT) and not decode(item).sat:
            a, b = item.operands[1:]
            made = _Product(a, b, False, decode(item).ftz, decode(item).type)
        elif item.guard is None and _is(item, ResultForm.NEGATION):
            made = _negated(products, item)
        elif item.guard is None and (_is(item, ResultForm.SUM) or _is(item, ResultForm.DIFFERENCE)):
            done = _fused(item, products, function, fresh) or done
        out += done
        _forget(products, factor_of, item)
        dest = item.operands[0] if item.operands else None
        if made is not None and isinstance(dest, Reg) and mentions[dest.name] == 2:
            products[dest.name] = made  # written here, read once
            for factor in registers(made.a) + registers(made.b):
                factor_of.setdefault(factor, set()).add(dest.name)
        if control_of(item.parts) is not Control.NEXT:
            products.clear()
    return replace(function, body=out, registers={**function.registers, **fresh})


def _is(ins: Instruction, form: ResultForm) -> bool:
    """Return whether it is a floating-point instruction without a rounding mode."""
    if ins.parts[-1] not in TYPES:
        return False
    d = decode(ins)
    return d.row.form is form and not d.rounding


def _negated(products: dict[str, _Product], ins: Instruction) -> _Product | None:
    source = ins.operands[1]
    found = products.get(source.name) if isinstance(source, Reg) else None
    d = decode(ins)
    if found is None or found.kind != d.type or found.flush != d.ftz:
        return None
    return replace(found, negated=not found.negated)


def _forget(
    products: dict[str, _Product], factor_of: dict[str, set[str]], ins: Instruction
) -> None:
    """Discard products whose register or factors are written here."""
    for name in registers(ins.operands[0]) if ins.operands else []:
        products.pop(name, None)
        for other in factor_of.pop(name, ()):
            products.pop(other, None)


def _fused(
    ins: Instruction, products: dict[str, _Product], function: PtxFunction, fresh: dict[str, str]
) -> list[Instruction]:
    """The `fma` (with a `neg` before it where a sign changes); empty when nothing fuses."""
    dest, first, second = ins.operands
    d, subtract = decode(ins), _is(ins, ResultForm.DIFFERENCE)
    for position, (factor, other) in enumerate(((first, second), (second, first))):
        p = products.get(factor.name) if isinstance(factor, Reg) else None
        # Both flush or neither does: an `fma` has a single `.ftz`.
        if p is None or p.kind != d.type or p.flush != d.ftz:
            continue
        out: list[Instruction] = []
        # In a - b * c the product changes its sign, in a * b - c the addend.
        flip_product = p.negated ^ (subtract and position == 1)
        a = _minus(p.a, ins, function, fresh, out) if flip_product else p.a
        flip_other = subtract and position == 0
        c = _minus(other, ins, function, fresh, out) if flip_other else other
        parts = ("fma", "rn", *["ftz"] * d.ftz, *["sat"] * d.sat, d.type)
        out.append(replace(ins, opcode=".".join(parts), parts=parts, operands=(dest, a, p.b, c)))
        return out
    return []


def _minus(
    operand: Operand,
    ins: Instruction,
    function: PtxFunction,
    fresh: dict[str, str],
    out: list[Instruction],
) -> Operand:
    """The operand with its sign changed, by an instruction where it is not a literal."""
    kind = ins.parts[-1]
    if isinstance(operand, FloatImm):
        return FloatImm(operand.bits ^ _SIGN[operand.width], operand.width)
    assert isinstance(operand, Reg)
    name = f"{operand.name}.minus{len(fresh)}"
    fresh[name] = function.registers[operand.name]
    parts = ("neg", kind)
    out.append(replace(ins, opcode=f"neg.{kind}", parts=parts, operands=(Reg(name), operand)))
    return Reg(name)
