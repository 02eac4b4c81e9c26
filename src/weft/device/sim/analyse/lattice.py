"""Transfer functions: the form of a result from the forms of its operands.

One small function for each kind of result that keeps structure (the column `form` of a row); every
other integer instruction gives a uniform result from uniform operands and a vector otherwise.
Operand forms arrive `truncated` to the width of the type they are read with, so a known constant is
a signed number of that width and a known `top` has a clear sign bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from weft.device.sim.analyse.form import (
    AFFINE,
    INDEXED,
    SPARSE,
    STRIPED,
    UNIFORM,
    VECTOR,
    ZERO,
    Form,
    affine,
    computed,
    constant,
    indexed,
    row_length,
    striped,
    trailing_zeros,
    wrapped,
)
from weft.ptx.isa.columns import ResultForm

Transfer = Callable[[Sequence[Form], int, bool], Form]
"""(operand forms, width in bits, signed type) -> form of the result."""


def _cap(top: int | None, bits: int) -> int | None:
    return top if top is not None and top < 1 << (bits - 1) else None


def _tops(fs: Sequence[Form]) -> list[int] | None:
    tops = [f.top for f in fs]
    return None if any(t is None for t in tops) else [t for t in tops if t is not None]


def _moved(off: Iterable[int], bits: int, align: int, top: int | None) -> Form:
    """A scalar plus lane offsets that were computed without regard to the width."""
    return affine(tuple(wrapped(x, bits) for x in off), align, top)


def _add(fs: Sequence[Form], bits: int, signed: bool, sign: int = 1) -> Form:
    a, b = fs
    if a.const is not None and b.const is not None:
        return constant(wrapped(a.const + sign * b.const, bits))
    tops = _tops(fs)
    # The difference of two bounded values may be negative.
    top = _cap(tops[0] + tops[1], bits) if tops and sign == 1 else None
    if a.is_scalar and b.is_scalar:
        off = (x + sign * y for x, y in zip(a.off, b.off, strict=True))
        return _moved(off, bits, min(a.align, b.align), top)
    wide, other = (a, b) if a.kind in (INDEXED, SPARSE) else (b, a)
    # A wide value that is subtracted would need the opposite scale, which `WideRules` does not
    # build.
    if wide.kind in (INDEXED, SPARSE) and other.kind == UNIFORM and (sign == 1 or wide is a):
        return replace(wide, align=0, const=None, top=None)
    rows, flat = (a, b) if a.kind == STRIPED else (b, a)
    # One step is kept, and it is not negated.
    if rows.kind == STRIPED and flat.is_scalar and (sign == 1 or rows is a):
        moved = (wrapped(x + sign * y, bits) for x, y in zip(a.off, b.off, strict=True))
        return striped(tuple(moved), rows.rows)
    return computed(top)


def _sub(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    return _add(fs, bits, signed, -1)


def _scaled(a: Form, c: int, bits: int) -> Form:
    """a * c for a known c."""
    top = _cap(a.top * c, bits) if a.top is not None and c >= 0 else None
    if a.const is not None:
        return constant(wrapped(a.const * c, bits))
    if a.is_scalar:
        return _moved((x * c for x in a.off), bits, a.align + trailing_zeros(c), top)
    if a.kind == STRIPED:
        return striped(tuple(wrapped(x * c, bits) for x in a.off), a.rows)
    if a.kind == INDEXED:
        return indexed(a.off, a.scale * c, a.signed, a.rows)
    if a.kind == SPARSE:
        return Form(SPARSE, scale=wrapped(a.scale * c, bits), signed=a.signed)
    return computed(top)


def _mul(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    a, b = fs
    if b.const is not None:
        return _scaled(a, b.const, bits)
    if a.const is not None:
        return _scaled(b, a.const, bits)
    tops = _tops(fs)
    top = _cap(tops[0] * tops[1], bits) if tops else None
    if a.kind == b.kind == UNIFORM:
        return affine(ZERO, a.align + b.align, top)
    if {a.kind, b.kind} == {UNIFORM, AFFINE} and bits == 32:
        rows = a.off if a.kind == AFFINE else b.off
        return striped(ZERO, rows) if row_length(rows) else computed(top)
    return computed(top)


def _mad(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    return _add([_mul(fs[:2], bits, signed), fs[2]], bits, signed)


def _shl(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    a, n = fs
    if n.const is not None and 0 <= n.const < bits:
        return _scaled(a, 1 << n.const, bits)
    return affine(ZERO) if a.kind == n.kind == UNIFORM else computed()


def _shr(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    a, n = fs
    k = n.const
    if k is not None and 0 <= k < bits:
        top = a.top >> k if a.top is not None else None
        # A logical shift clears the sign bit, whatever the operand was.
        if top is None and not signed and k > 0:
            top = (1 << (bits - k)) - 1
        # The offsets are in bits that are zero in the base. No carry passes between the two, so
        # each may be shifted by itself.
        exact = a.low_bits_free and (not signed or a.top is not None)
        if exact or a.kind == UNIFORM:
            return affine(tuple(x >> k for x in a.off), max(0, a.align - k), top)
        return computed(top)
    return affine(ZERO) if a.kind == n.kind == UNIFORM else computed()


def _and(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    a, b = fs
    tops = [f.top for f in fs if f.top is not None]  # one side's bound is enough
    top = min(tops) if tops else None
    if a.const is not None:
        a, b = b, a
    if b.const is not None and a.low_bits_free:
        c = b.const & ((1 << bits) - 1)
        return affine(tuple(x & c for x in a.off), max(a.align, trailing_zeros(c)), top)
    if a.kind == b.kind == UNIFORM:
        return affine(ZERO, max(a.align, b.align), top)
    return computed(top)


def _multiple(f: Form) -> int:
    """log2 of a power of two that divides every lane."""
    return min(f.align, *(trailing_zeros(x) for x in f.off))


def adds_bits(fs: Sequence[Form]) -> bool:
    """No bit can be set on both sides, so that `or` and `xor` are additions."""
    a, b = fs
    if not (a.is_scalar and b.is_scalar):
        return False
    return (b.top is not None and b.top < 1 << _multiple(a)) or (
        a.top is not None and a.top < 1 << _multiple(b)
    )


def _or_xor(fs: Sequence[Form], bits: int, xor: bool) -> Form:
    a, b = fs
    tops = _tops(fs)
    top = _cap((1 << max(t.bit_length() for t in tops)) - 1, bits) if tops else None
    if a.const is not None:
        a, b = b, a
    if b.const is not None and a.low_bits_free:
        # The row is applied to the base, which then has the constant's low bits. The offsets are
        # what the lanes have beyond them.
        low = b.const & ((1 << a.align) - 1)
        off = (((x ^ low) if xor else (x | low)) - low for x in a.off)
        return _moved(off, bits, min(a.align, trailing_zeros(b.const)), top)
    if a.kind == b.kind == UNIFORM:
        return affine(ZERO, min(a.align, b.align), top)
    if adds_bits(fs):
        off = (x + y for x, y in zip(a.off, b.off, strict=True))
        return _moved(off, bits, min(a.align, b.align), top)
    return computed(top)


def _or(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    return _or_xor(fs, bits, False)


def _xor(fs: Sequence[Form], bits: int, signed: bool) -> Form:
    return _or_xor(fs, bits, True)


def _bounded(limit: Callable[[Sequence[Form]], int | None]) -> Transfer:
    def rule(fs: Sequence[Form], bits: int, signed: bool) -> Form:
        top = limit(fs)
        return affine(ZERO, 0, top) if all(f.kind == UNIFORM for f in fs) else computed(top)

    return rule


def _rem_top(fs: Sequence[Form]) -> int | None:
    a, b = fs
    if b.const is not None and b.const > 0 and a.top is not None:
        return min(a.top, b.const - 1)
    return None


def _div_top(fs: Sequence[Form]) -> int | None:
    a, b = fs
    return a.top // b.const if b.const is not None and b.const > 0 and a.top is not None else None


def _min_top(fs: Sequence[Form]) -> int | None:
    tops = _tops(fs)
    return min(tops) if tops else None


def _max_top(fs: Sequence[Form]) -> int | None:
    tops = _tops(fs)
    return max(tops) if tops else None


TABLE: Mapping[ResultForm, Transfer] = {
    ResultForm.SUM: _add,
    ResultForm.DIFFERENCE: _sub,
    ResultForm.PRODUCT: _mul,
    ResultForm.PRODUCT_SUM: _mad,
    ResultForm.LEFT_SHIFT: _shl,
    ResultForm.RIGHT_SHIFT: _shr,
    ResultForm.AND: _and,
    ResultForm.OR: _or,
    ResultForm.XOR: _xor,
    ResultForm.REMAINDER: _bounded(_rem_top),
    ResultForm.QUOTIENT: _bounded(_div_top),
    ResultForm.MINIMUM: _bounded(_min_top),
    ResultForm.MAXIMUM: _bounded(_max_top),
    ResultForm.SELECTION: _bounded(lambda fs: _max_top(fs[:2])),
}
"""The value of a row's column `form` -> the transfer function."""

BOUNDED = (
    ResultForm.REMAINDER,
    ResultForm.QUOTIENT,
    ResultForm.MINIMUM,
    ResultForm.MAXIMUM,
    ResultForm.SELECTION,
)
"""Rules that give no more than a bound of the lanes."""

KEEPS_OFFSETS = frozenset(TABLE) - frozenset(BOUNDED)
"""The row's function may be applied to the scalar bases where the result is affine."""


def widen(a: Form, scale: int, signed: bool) -> Form:
    """The 64-bit form of scale * ext(a) for a 32-bit a."""
    if a.const is not None:
        value = a.const if signed else a.const % (1 << 32)
        return constant(wrapped(value * scale, 64))
    if a.kind == UNIFORM:
        top = _cap(a.top * scale, 64) if a.top is not None and scale > 0 else None
        return affine(ZERO, a.align + trailing_zeros(scale) if a.top is not None else 0, top)
    if a.kind == STRIPED:
        return indexed(a.off, scale, signed, a.rows)
    if a.kind == AFFINE:
        if a.top is not None:  # no lane wraps: the sum may be taken apart
            top = _cap(a.top * scale, 64) if scale > 0 else None
            return _moved((x * scale for x in a.off), 64, 0, top)
        return indexed(a.off, scale, signed)
    return Form(SPARSE, scale=scale, signed=signed) if a.kind == VECTOR else computed()
