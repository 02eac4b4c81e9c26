"""Forms: compile-time knowledge about the 32 lanes of a register.

    uniform   one value for all lanes                     base
    affine    a scalar plus a constant per lane           base + off[lane]
    striped   the same, and a second scalar per row       base + off[lane] + step * rows[lane]
    indexed   a scalar plus a widened 32-bit one of both  base + scale * ext(index + off[lane])
    sparse    the same with a 32-bit vector               base + scale * ext(index[lane])
    vector    anything

`striped` is an index `row * width + column` where several rows of a block are in one warp: rows of
8 or 16 lanes, each of them affine. It has 32 bits.

`indexed` lets 64-bit addresses made from 32-bit indices stay scalar without assuming that the
32-bit sum does not wrap: the widening stays symbolic and is evaluated exactly at each use.

All numbers are taken modulo the register's width. The lanes of a scalar form are less than `SPAN`
apart, so that the sum of base and offset wraps at most once: code that looks at the lowest and the
highest lane (address checks, comparisons) knows of every lane between them. For a striped form this
holds within a row.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from weft.records import dataclass

W = 32
ZERO = (0,) * W
LANES = tuple(range(W))
UNIFORM, AFFINE, STRIPED, INDEXED, SPARSE, VECTOR = range(6)
SPAN = 1 << 30
"""The lanes of a scalar form are less than this apart, in bytes where it is an address."""


@dataclass(frozen=True, slots=True)
class Form:
    """A point of the lattice; see the head of this file.

    off    each lane's distance from lane 0 (so off[0] is 0, and the base is lane 0's value)
    align  log2 of a power of two that divides the scalar base
    const  its value as a signed number, where the whole register is one known integer
    top    every lane is within 0 .. top, with a clear sign bit: signed and unsigned readings agree
    rows   how many times a striped index has its step, by lane (an indexed form may be striped)
    """

    kind: int
    off: tuple[int, ...] = ZERO
    align: int = 0
    const: int | None = None
    top: int | None = None
    scale: int = 1
    signed: bool = True
    rows: tuple[int, ...] = ZERO

    @property
    def is_scalar(self) -> bool:
        """True if the register is stored as a scalar (plus constants)."""
        return self.kind <= AFFINE

    @property
    def low_bits_free(self) -> bool:
        """True if the lane offsets fit into bits that are zero in the base."""
        return self.is_scalar and min(self.off) >= 0 and max(self.off) < 1 << self.align


SOME_UNIFORM = Form(UNIFORM)
"""One value for all lanes, which is not known at compile time."""
_ANYTHING = Form(VECTOR)


def affine(
    off: tuple[int, ...], align: int = 0, top: int | None = None, const: int | None = None
) -> Form:
    if top == 0:
        return constant(0)
    # Farther apart, two ends inside a window would not bound the lanes between them.
    if max(off) - min(off) >= SPAN:
        return vector(top)
    return Form(UNIFORM if off == ZERO else AFFINE, off, min(align, 62), const, top)


def row_length(rows: tuple[int, ...]) -> int:
    """Lanes that share a row, one run after the other; 0 where rows are shorter than 8 lanes."""
    for length in (16, 8):
        if all(x == rows[i // length * length] for i, x in enumerate(rows)):
            return length
    return 0


def striped(off: tuple[int, ...], rows: tuple[int, ...]) -> Form:
    """base + off[lane] + step * rows[lane], in 32 bits."""
    if not row_length(rows) or max(off) - min(off) >= SPAN:
        return vector()
    return Form(STRIPED, off, rows=rows)


def indexed(off: tuple[int, ...], scale: int, signed: bool, rows: tuple[int, ...] = ZERO) -> Form:
    """base + scale * ext(index + off[lane] + step * rows[lane]), with the scale modulo 2^64."""
    scale = wrapped(scale, 64)
    if (max(off) - min(off)) * max(1, abs(scale)) >= SPAN:
        return Form(SPARSE, scale=scale, signed=signed)
    return Form(INDEXED, off, scale=scale, signed=signed, rows=rows)


def wrapped(value: int, bits: int) -> int:
    """The signed number that the low `bits` bits of an integer spell."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def truncated(f: Form, bits: int) -> Form:
    """The form of the low `bits` bits of a register that has the form `f`."""
    if f.kind in (INDEXED, SPARSE):
        return f if bits == 64 else vector()
    if f.kind == STRIPED:
        return f if bits == 32 else vector()
    if f.const is not None:
        return constant(wrapped(f.const, bits))
    top = f.top if f.top is not None and f.top < 1 << (bits - 1) else None
    if f.kind == VECTOR:
        return vector(top)
    return affine(_wrapped_lanes(f.off, bits), f.align, top)


@functools.lru_cache(maxsize=1024)
def _wrapped_lanes(off: tuple[int, ...], bits: int) -> tuple[int, ...]:
    return tuple(wrapped(x, bits) for x in off)


def vector(top: int | None = None) -> Form:
    """Independent lanes, even if all are known to be 0: others may be blended in."""
    return _ANYTHING if top is None else Form(VECTOR, top=top)


def computed(top: int | None = None) -> Form:
    """Any value within 0 .. top; the sign of a nonnegative value (`x >> 63`) is a constant."""
    return constant(0) if top == 0 else vector(top)


def trailing_zeros(value: int) -> int:
    return 62 if value == 0 else (value & -value).bit_length() - 1


@functools.lru_cache(maxsize=1024)
def constant(value: int) -> Form:
    return Form(UNIFORM, ZERO, trailing_zeros(value), value, value if value >= 0 else None)


def _top(a: Form, b: Form) -> int | None:
    return None if a.top is None or b.top is None else max(a.top, b.top)


def meet(a: Form | None, b: Form) -> Form:
    """The form of a register that either form may be written to."""
    if a is None or a == b:
        return b
    top = _top(a, b)
    if a.kind != b.kind:
        # Of different kinds, only indexed and sparse have a form in common: sparse.
        pair = {a.kind, b.kind}
        if pair != {INDEXED, SPARSE}:
            return vector(top)
    if a.kind == VECTOR:
        return vector(top)
    if a.kind == STRIPED:
        return a if (a.off, a.rows) == (b.off, b.rows) else vector(top)
    if a.kind <= AFFINE:
        if a.off != b.off:
            return vector(top)
        const = a.const if a.const == b.const else None
        return Form(a.kind, a.off, min(a.align, b.align), const, top)
    if (a.scale, a.signed) != (b.scale, b.signed):
        return vector(top)
    if a.kind == b.kind == INDEXED and (a.off, a.rows) == (b.off, b.rows):
        return replace(a, align=0, const=None, top=top)
    return Form(SPARSE, scale=a.scale, signed=a.signed)
