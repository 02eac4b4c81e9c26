"""Matrix products of one warp, from fragments in registers to fragments in registers.

`multiply` splits the product of an `mma` or `wmma` into steps of 16 (or 8) rows and 8 columns and
calls one out-of-line function for each; fragments pass through memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field, replace
from itertools import chain, product

from weft.ir.builder import Builder, Val
from weft.ir.tensor_exact import (
    BitStep,
    DoubleStep,
    IntegerStep,
    call_bits,
    call_double,
    call_integer,
)
from weft.ir.tensor_format import FORMATS, fp8_to_half
from weft.ir.tensor_layout import WIDTH, packed, shape_of
from weft.ir.tensor_operand import TensorStep
from weft.ir.tensor_prepare import Fragments
from weft.ir.tensor_quad import call_quad
from weft.ir.tensor_step import call_prepared, call_step
from weft.records import dataclass

__all__ = ["Sources", "TensorForm", "multiply"]

Call = Callable[[Val, Val, Val, Val], None]
_SCRATCH = 5120
"""Bytes of the largest product's fragments: f64 m16n8k16, 20 registers of 64 bits."""


@dataclass(frozen=True)
class TensorForm:
    """One form of `mma` or `wmma.mma`: shape and types as PTX spells them, and its modifiers."""

    shape: str
    a: str
    b: str
    c: str
    d: str
    saturate: bool = False
    op: str = ""
    mode: str = "rn"
    a_layout: str = "row"
    b_layout: str = "col"

    @property
    def quad_pairs(self) -> bool:
        """True for the form that multiplies four pairs of matrices."""
        return self.shape == "m8n8k4" and self.a == "f16"


@dataclass(frozen=True)
class Sources:
    """Registers of A and B: 32 lanes of i32 or double.

    keys    of their contents: equal keys in a function for equal contents
    known   the operands that the function has prepared
    addend  the key of C's contents
    whole   one product computes D from C: then the function may record the address of D
    """

    a: Sequence[Val]
    b: Sequence[Val]
    keys: tuple[Hashable, Hashable] = (None, None)
    known: Fragments = field(default_factory=Fragments)
    addend: Hashable = None
    whole: bool = False

    def part(self, name: str, a: Sequence[Val], b: Sequence[Val]) -> Sources:
        """Registers that are derived from these."""
        keys = [None if key is None else (key, name) for key in self.keys]
        return Sources(a, b, (keys[0], keys[1]), self.known)

    def swapped(self) -> Sources:
        return replace(self, a=self.b, b=self.a, keys=self.keys[::-1])


def multiply(
    b: Builder, form: TensorForm, x: Sources, c: Sequence[Val], *, fast: bool
) -> list[Val]:
    """The registers of D = A*B + C; those of C are 32 lanes of i32, float or double.

    With `fast`, floats are summed by FMAs in f32 instead of as the hardware does.
    """
    wide = "f32" if "f32" in (form.c, form.d) else form.d
    if form.quad_pairs:
        return _quad_pairs(b, form, x.a, x.b, c)
    c = _convert(b, c, form.c, wide)
    if form.c != form.d:  # D has other registers than the sums
        x = replace(x, addend=None, whole=False)
    if form.shape == "m8n32k16":  # the hardware multiplies the transposed matrices
        form, x = replace(form, shape="m32n8k16", a=form.b, b=form.a), x.swapped()
    if form.a in ("e4m3", "e5m2"):
        d = _fp8(b, form, x, c, wide, fast)
    elif form.shape == "m16n16k8":
        d = _tf32_wmma(b, form, x, c, fast)
    else:
        d = _tiles(b, form, x, c, wide, fast)
    return _convert(b, d, wide, form.d)


def _steps(b: Builder, form: TensorForm, wide: str, fast: bool) -> Call:
    """The function of one step of this form."""
    m, _, k = shape_of(form.shape)
    rows = min(m, 16)
    if form.a == "f64":
        double = DoubleStep(rows, k, form.mode)
        return lambda *ps: call_double(b, double, *ps)
    if form.a == "b1":
        bits = BitStep(form.op, rows, k)
        return lambda *ps: call_bits(b, bits, *ps)
    if form.d == "s32":
        integer = IntegerStep(form.a, form.b, rows, k, form.saturate)
        return lambda *ps: call_integer(b, integer, *ps)
    step = TensorStep(form.a, wide, rows, k)
    return lambda *ps: call_step(b, step, *ps, fast=fast)


def _tiles(
    b: Builder, form: TensorForm, x: Sources, c: Sequence[Val], wide: str, fast: bool
) -> list[Val]:
    """Compute D by steps; registers beyond the matrices are not read."""
    m, n, k = shape_of(form.shape)
    reg, rows = 32 * max(WIDTH[wide], 32) // 8, min(m, 16)
    down, across = m // rows, n // 8
    blocks = k // (4 * packed(form.a))
    size_a, size_b, size_c = rows // 8 * blocks, blocks, rows // 4 // packed(wide)
    parts_a = [x.a[i : i + size_a] for i in range(0, size_a * down, size_a)]
    parts_b = [x.b[i : i + size_b] for i in range(0, size_b * across, size_b)]
    places = [i * size_c * reg for i in range(down * across)]
    if wide in ("f16", "f32") and not fast:
        step, known = TensorStep(form.a, wide, rows, k), x.known
        key_a, key_b = x.keys
        all_a = [known.rows(b, step, p, key_a and (key_a, i)) for i, p in enumerate(parts_a)]
        all_b = [known.columns(b, step, p, key_b and (key_b, i)) for i, p in enumerate(parts_b)]
        size, sums = len(c) * reg, known.sums
        pc = sums.take(size, x.addend)
        near, pd = pc or scratch(b, [c], reg)[0], sums.room(b, size)
        for (one, other), place in zip(product(all_a, all_b), places, strict=True):
            call_prepared(b, step, one, other, b.at(near, place), b.at(pd, place))
        if pc is not None:
            sums.free(size, pc)
        if x.whole:
            sums.newest = size, pd
        else:
            sums.free(size, pd)
    else:
        call = _steps(b, form, wide, fast)
        pa, pb, pc, pd = scratch(b, [*map(chain.from_iterable, (parts_a, parts_b)), c], reg)
        starts = product(
            (b.at(pa, i * size_a * reg) for i in range(down)),
            [b.at(pb, j * size_b * reg) for j in range(across)],
        )
        for (at_a, at_b), place in zip(starts, places, strict=True):
            call(at_a, at_b, b.at(pc, place), b.at(pd, place))
    return [b.load(v.element, 32, b.at(pd, i * reg), 64) for i, v in enumerate(c)]


def scratch(b: Builder, operands: Sequence[Iterable[Val]], reg: int) -> list[Val]:
    """A, B and C stored on the stack and room for D, the same for every product of a function."""
    # One area for all products: a kernel with hundreds of them keeps a small stack frame.
    line = f"  %tensor.scratch = alloca [{_SCRATCH} x i8], align 64"
    if line not in b.fn.entry:
        b.fn.entry.append(line)
    place, out = Val(b, "ptr", 0, "%tensor.scratch"), []
    for regs in operands:
        out.append(place)
        for v in regs:
            b.store(v, place, 64)
            place = b.at(place, reg)
    return [*out, place]


def _quad_pairs(
    b: Builder, form: TensorForm, a: Sequence[Val], bt: Sequence[Val], c: Sequence[Val]
) -> list[Val]:
    """`mma.m8n8k4` on f16."""
    pa, pb, pc, pd = scratch(b, [a, bt, c], 128)
    call_quad(b, (form.a_layout, form.b_layout), (form.c, form.d), pa, pb, pc, pd)
    ty = "float" if form.d == "f32" else "i32"
    return [b.load(ty, 32, b.at(pd, i * 128), 64) for i in range(8 // packed(form.d))]


def _tf32_wmma(b: Builder, form: TensorForm, x: Sources, c: Sequence[Val], fast: bool) -> list[Val]:
    """`wmma` on tf32: one step for k below 4, then one for the others."""
    half, d = replace(form, shape="m16n16k4"), list(c)
    # The sum of the first step is cut before the second begins: a single sum of all eight products
    # would differ from an H200 in the last bits.
    for first in (0, 1):
        part = x.part(f"half {first}", x.a[2 * first :], x.b[first::2])
        d = _tiles(b, half, part, d, "f32", fast)
    return d


def _convert(b: Builder, regs: Sequence[Val], have: str, want: str) -> list[Val]:
    """Accumulator registers in the other float format: pairs of f16, or single f32."""
    if have == want:
        return list(regs)
    if want == "f32":
        halves = [b.reinterpret((v >> s).trunc("i16"), "half") for v in regs for s in (0, 16)]
        return [b.canonical(b.cast("fpext", h, "float")) for h in halves]
    bits = [b.bits(b.cast("fptrunc", v, "half")).zext("i32") for v in regs]
    return [bits[i] | (bits[i + 1] << 16) for i in range(0, len(bits), 2)]


def _fp8(
    b: Builder, form: TensorForm, x: Sources, c: Sequence[Val], wide: str, fast: bool
) -> list[Val]:
    """Two steps on f16, of the k with k%4 in {0, 1} and of the others, and then c is added."""
    m, n, k = shape_of(form.shape)
    half = TensorForm(f"m{m}n{n}k{k // 2}", "f16", "f16", wide, wide)
    # c takes no part in the aligned sums of fp8. The code of the assembler adds it last, with a
    # rounding of its own.
    d = [b.zero(v.element, v.lanes) for v in c]
    for low in (True, False):
        name, picks = low_or_high(low)
        of_a, of_b = (
            [halves(b, v, kind, name, picks) for v in regs]
            for regs, kind in ((x.a, form.a), (x.b, form.b))
        )
        d = _tiles(b, half, x.part(name, of_a, of_b), d, wide, fast)
    if wide == "f32":
        return [b.canonical(v + y) for v, y in zip(c, d, strict=True)]
    return [
        b.view(b.view(v, "half", 64) + b.view(y, "half", 64), "i32", 32)
        for v, y in zip(c, d, strict=True)
    ]


def halves(b: Builder, v: Val, kind: str, name: str, picks: Sequence[int]) -> Val:
    """64 of the 128 fp8 numbers of a register as pairs of f16."""

    def convert(b: Builder, v: Val) -> Val:
        numbers = b.shuffle(b.view(v, "i8", 128), picks)
        return b.view(fp8_to_half(b, numbers, FORMATS[kind]), "i32", 32)

    return b.lanewise(f"tensor.{kind}.{name}", [v], "i32", convert)


def low_or_high(low: bool) -> tuple[str, list[int]]:
    """A name, and the indices of the low or high two of each lane's four bytes: for `halves`."""
    picks = [4 * (i // 2) + i % 2 + (0 if low else 2) for i in range(64)]
    return ("low" if low else "high"), picks
