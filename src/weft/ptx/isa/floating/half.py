"""16-bit float arithmetic: add, sub, mul and fma of f16, bf16 and their pairs.

Every row works on the bits of 16-bit numbers: 32 of them, or 64 when the type is packed. Results
hold the one NaN the hardware writes, 0x7fff. Sums and products of two f16 or bf16 numbers may go
through f32 (24 bits are enough that the second rounding does no harm); a fused multiply-add may
not: there f32 holds the sum rounded to odd, which the last rounding turns into the exact result.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import Builder, Val
from weft.ir.narrow import (
    bfloat_from_float,
    float_from_bfloat,
    float_from_double,
    flush,
    half_from_float,
    odd_sum,
    raw_bits,
    saturate,
)
from weft.ptx.isa.columns import InstructionWork, ResultForm
from weft.ptx.isa.registry import instruction

F16 = "f16 f16x2"
BF16 = "bf16 bf16x2"
MANUAL = "half-precision-floating-point-instructions-"
_TINY = 0x387FF000
"""An f32 magnitude below this is subnormal after rounding to f16 with an unbounded exponent."""

Body = Callable[..., Val]


def per_half(b: Builder, type: str, args: tuple[Val, ...], body: Body, name: str = "") -> Val:
    """`body` on the bits of each half; out of line when it has a name."""
    packed = type.endswith("x2")
    wide = b.match(*args)
    lanes = [b.view(v, "i16", 2 * (v.lanes or 1)) if packed else b.bits(v) for v in wide]
    full = f"half.{name}.{kind_of(type)}"
    out = b.lanewise(full, lanes, "i16", body) if name else body(b, *lanes)
    if packed:
        return b.view(out, "i32", wide[0].lanes)
    return b.reinterpret(out, "half") if type == "f16" else out


def kind_of(type: str) -> str:
    return type.removesuffix("x2")


def _half(b: Builder, bits: Val) -> Val:
    return b.reinterpret(bits, "half")


def _finish(b: Builder, bits: Val, kind: str, *, sat: str = "", relu: str = "") -> Val:
    if sat:
        return saturate(b, bits, kind)
    # Compared as integers, negative numbers are below zero and the canonical NaN is above it.
    return b.smax(bits, 0) if relu else bits


def _flush_float(bits: Val) -> Val:
    """f32 bits on their way to f16: signed zero where the f16 would be subnormal."""
    return (bits & 0x7FFFFFFF).ult(_TINY).select(bits & (1 << 31), bits)


_OPS: dict[str, Callable[[Val, Val], Val]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
}


def _f16_pair(op: str, ftz: str, sat: str) -> Body:
    """add, sub or mul of f16."""

    def body(b: Builder, x: Val, y: Val) -> Val:
        if ftz:
            x, y = flush(x, "f16"), flush(y, "f16")
        # A tiny product may round up to the least normal f16. Whether it is flushed depends on its
        # value before that rounding, so it is taken in f32.
        if ftz and op == "mul":
            wide = [b.cast("fpext", _half(b, v), "float") for v in (x, y)]
            exact = _flush_float(raw_bits(b, wide[0] * wide[1]))
            bits = half_from_float(b, b.reinterpret(exact, "float"), "rn")
        else:
            bits = b.bits(_OPS[op](_half(b, x), _half(b, y)))
            # a sum below the normal range is exact, so it may be flushed after rounding
            bits = flush(bits, "f16") if ftz else bits
        return _finish(b, bits, "f16", sat=sat)

    return body


def _bf16_pair(op: str) -> Body:
    def body(b: Builder, x: Val, y: Val) -> Val:
        wide = _OPS[op](float_from_bfloat(b, x), float_from_bfloat(b, y))
        return bfloat_from_float(b, wide, "rn")

    return body


_FORMS = {"add": ResultForm.SUM, "sub": ResultForm.DIFFERENCE, "mul": ResultForm.PRODUCT}
_PAIR_VECTORS = {
    "add": ("1.5 2.25 -> 3.75", "0x3c003c00 0x3c004000 -> 0x40004200", "0x3f80 0x3b80 -> 0x3f80"),
    "sub": ("1.5 2.25 -> -0.75", "0x3c003c00 0x3c004000 -> 0x0000bc00", "0x3f80 0x3b80 -> 0x3f7f"),
    "mul": ("1.5 2.25 -> 3.375", "0x3c003c00 0x3c004000 -> 0x3c004000", "0x3f81 0x3f81 -> 0x3f82"),
}


def _pair_rows(op: str) -> None:
    f16, packed, bf16 = _PAIR_VECTORS[op]

    @instruction(
        f"{op}{{.rnd}}{{.ftz}}{{.sat}}.type  d, a, b",
        form=_FORMS[op],
        manual=MANUAL + op,
        rnd="rn",
        ftz="ftz",
        sat="sat",
        type=F16,
        vectors=[f"{op}.f16  {f16}", f"{op}.rn.f16x2  {packed}", f"{op}.f16  inf nan -> nan"],
    )
    def f16_row(e: Builder, a: Val, b: Val, *, rnd: str, ftz: str, sat: str, type: str) -> Val:
        # Short enough to be inlined unless `.ftz` adds its tests.
        name = f"{op}{ftz}{sat}" if ftz else ""
        return per_half(e, type, (a, b), _f16_pair(op, ftz, sat), name)

    @instruction(
        f"{op}{{.rnd}}.type  d, a, b",
        form=_FORMS[op],
        manual=MANUAL + op,
        rnd="rn",
        type=BF16,
        vectors=[f"{op}.bf16  {bf16}"],
    )
    def bf16_row(e: Builder, a: Val, b: Val, *, rnd: str, type: str) -> Val:
        return per_half(e, type, (a, b), _bf16_pair(op), op)


for _op in _OPS:
    _pair_rows(_op)


def _f16_fma(ftz: str, sat: str, relu: str) -> Body:
    def body(b: Builder, x: Val, y: Val, z: Val) -> Val:
        if ftz:
            x, y, z = (flush(v, "f16") for v in (x, y, z))
        fx, fy, fz = (b.cast("fpext", _half(b, v), "float") for v in (x, y, z))
        total = odd_sum(b, fx * fy, fz)  # the product has 22 bits: exact
        total = _flush_float(total) if ftz else total
        bits = half_from_float(b, b.reinterpret(total, "float"), "rn")
        return _finish(b, bits, "f16", sat=sat, relu=relu)

    return body


@instruction(
    "fma.rn{.ftz}{.sat}{.relu}.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual=MANUAL + "fma",
    ftz="ftz",
    sat="sat",
    relu="relu",
    type=F16,
    vectors=[
        "fma.rn.f16  2.0 3.0 4.0 -> 10.0",
        "fma.rn.f16  0x2801 0x23fe 0x3c01 -> 0x3c01",
        "fma.rn.relu.f16x2  0x3c003c00 0xbc003c00 0 -> 0x00003c00",
    ],
)
def fma_f16(e: Builder, a: Val, b: Val, c: Val, *, ftz: str, sat: str, relu: str, type: str) -> Val:
    return per_half(e, type, (a, b, c), _f16_fma(ftz, sat, relu), f"fma{ftz}{sat}{relu}")


def _bf16_fma_double(b: Builder, x: Val, y: Val, z: Val) -> Val:
    """f32 bits, rounded to odd, of x * y + z where the product does not fit f32."""
    dx, dy, dz = (b.cast("fpext", float_from_bfloat(b, v), "double") for v in (x, y, z))
    total = b.reinterpret(odd_sum(b, dx * dy, dz), "double")
    return float_from_double(b, total, "odd")


def _bf16_fma(relu: str) -> Body:
    """The product is exact in f32 unless it is below 2^-126 or reaches 2^128."""

    def body(b: Builder, x: Val, y: Val, z: Val) -> Val:
        fx, fy, fz = (float_from_bfloat(b, v) for v in (x, y, z))
        product = fx * fy
        low, high = 0x00800000, 0x7F000000
        unfit = ((raw_bits(b, product) & 0x7FFFFFFF) - low).uge(high - low)
        unfit_and_not_zero = b.either(
            b.any(unfit),
            # A product that is zero lies below 2^-126 too, but is exact.
            lambda: b.any(unfit & (x << 1).ne(0) & (y << 1).ne(0)),
            lambda: b.integer("i1", 0),
        )
        total = b.either(
            unfit_and_not_zero,
            lambda: b.lanewise("half.fma.double", [x, y, z], "i32", _bf16_fma_double),
            lambda: odd_sum(b, product, fz),
        )
        bits = bfloat_from_float(b, b.reinterpret(total, "float"), "rn")
        return _finish(b, bits, "bf16", relu=relu)

    return body


@instruction(
    "fma.rn{.relu}.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual=MANUAL + "fma",
    relu="relu",
    type=BF16,
    vectors=[
        "fma.rn.bf16  0x4000 0x4040 0x4080 -> 0x4120",
        "fma.rn.bf16  0x3f81 0x3fc0 0x0001 -> 0x3fc2",
        "fma.rn.bf16  0x7f00 0x4080 0xff7f -> 0x7f80",
    ],
)
def fma_bf16(e: Builder, a: Val, b: Val, c: Val, *, relu: str, type: str) -> Val:
    return per_half(e, type, (a, b, c), _bf16_fma(relu), f"fma{relu}")
