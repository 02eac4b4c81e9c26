"""`cvt` to and from packed pairs (f16x2, bf16x2, e4m3x2, e5m2x2), and to tf32.

https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt

The first source of a pair goes into the upper half. e5m2 is f16 with 8 bits less; so is e4m3 with
7 bits less once the value is scaled by 2^-8, which lines up the exponents, subnormals included.
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ir.narrow import bfloat_from_float, cut, half_from_float, infinity, is_nan, raw_bits
from weft.ptx.isa.columns import Accepts, WorkUnit
from weft.ptx.isa.convert.convert_float import limited
from weft.ptx.isa.registry import instruction

_MANUAL = "data-movement-and-conversion-instructions-cvt"
_F8 = "e4m3x2 e5m2x2"
_F8_SHAPE = {"e4m3x2": (7, 0x7E), "e5m2x2": (8, 0x7B)}
"""Mantissa bits that f16 has more, and the largest finite number."""


@instruction(
    "cvt.frnd{.relu}{.satfinite}.dtype.f32  d:dtype, a:f32, b:f32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    frnd="rn rz",
    relu="relu",
    satfinite="satfinite",
    dtype="f16x2 bf16x2",
    vectors=[
        "cvt.rn.f16x2.f32  1.0 2.0 -> 0x3c004000",
        "cvt.rn.relu.bf16x2.f32  1.0 -2.0 -> 0x3f800000",
        "cvt.rn.satfinite.f16x2.f32  1e9 nan -> 0x7bff7fff",
    ],
)
def pair(e: Builder, a: Val, b: Val, *, frnd: str, relu: str, satfinite: str, dtype: str) -> Val:
    kind = dtype.removesuffix("x2")
    narrow = half_from_float if kind == "f16" else bfloat_from_float
    high, low = (
        limited(e, narrow(e, v, frnd), kind, "", relu, satfinite).zext("i32") for v in (a, b)
    )
    return high << 16 | low


@instruction(
    "cvt.rna{.satfinite}.tf32.f32  d:b32, a:f32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    satfinite="satfinite",
    vectors=[
        "cvt.rna.tf32.f32  0x3f801000 -> 0x3f802000",
        "cvt.rna.satfinite.tf32.f32  inf -> 0x7f7fe000",
    ],
    notes="An integer sequence on the hardware: a NaN whose payload sits in the low bits is cut.",
)
def tf32_away(e: Builder, a: Val, *, satfinite: str) -> Val:
    bits = e.bits(a)
    special = (bits & infinity("f32")).eq(infinity("f32"))
    # Half a unit is added, away from zero. Infinity and NaN are only cut: the carry out of a NaN
    # would reach the sign.
    out = special.select(bits, bits + 0x1000) & ~0x1FFF
    if satfinite:
        over = (out & 0x7FFFFFFF).uge(infinity("f32"))
        out = over.select(out - 0x2000, out)
    return out


@instruction(
    "cvt.frnd{.satfinite}{.relu}.tf32.f32  d:b32, a:f32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    frnd="rn rz",
    satfinite="satfinite",
    relu="relu",
    vectors=["cvt.rn.tf32.f32  0x3f801000 -> 0x3f800000", "cvt.rz.tf32.f32  nan -> 0x7fffe000"],
)
def tf32(e: Builder, a: Val, *, frnd: str, satfinite: str, relu: str) -> Val:
    rounded = cut(e, raw_bits(e, a), 13, frnd) << 13
    if satfinite:
        over = (rounded & 0x7FFFFFFF).eq(infinity("f32"))
        rounded = over.select(rounded - 0x2000, rounded)
    out = e.is_nan(a).select(e.integer("i32", 0x7FFFE000), rounded)
    return e.smax(out, 0) if relu else out


def _to_f8(e: Builder, kind: str, relu: str, v: Val) -> Val:
    """The bits of an f32 in an 8-bit format, in the low byte of an i16."""
    drop, most = _F8_SHAPE[kind]

    def body(b: Builder, x: Val) -> Val:
        scaled = x * b.const("float", 2.0**-8) if kind == "e4m3x2" else x
        bits = raw_bits(b, b.reinterpret(half_from_float(b, scaled, "odd"), "half"))
        # `.satfinite` is not optional for fp8: infinity and overflow become the largest number.
        magnitude = b.umin(cut(b, bits & 0x7FFF, drop, "rn"), most)
        sign = bits >> 8 & 0x80
        out = bits.slt(0).select(b.integer("i16", 0), magnitude) if relu else magnitude | sign
        return b.is_nan(x).select(b.integer("i16", 0x7F), out)

    return e.lanewise(f"cvt.{relu}{kind}.f32", [v], "i16", body)


@instruction(
    "cvt.rn.satfinite{.relu}.dtype.f32  d:b16, a:f32, b:f32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    relu="relu",
    dtype=_F8,
    vectors=[
        "cvt.rn.satfinite.e4m3x2.f32  1.0 -448.0 -> 0x38fe",
        "cvt.rn.satfinite.e5m2x2.f32  1e9 nan -> 0x7b7f",
    ],
)
def f8_from_f32(e: Builder, a: Val, b: Val, *, relu: str, dtype: str) -> Val:
    return _to_f8(e, dtype, relu, a) << 8 | _to_f8(e, dtype, relu, b)


@instruction(
    "cvt.rn.satfinite{.relu}.dtype.f16x2  d:b16, a:f16x2",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    relu="relu",
    dtype=_F8,
    vectors=["cvt.rn.satfinite.e4m3x2.f16x2  0x3c00df00 -> 0x38fe"],
)
def f8_from_f16(e: Builder, a: Val, *, relu: str, dtype: str) -> Val:
    halves = e.view(a, "half", 2 * (a.lanes or 1))
    wide = _to_f8(e, dtype, relu, e.cast("fpext", halves, "float"))
    if not a.lanes:  # LLVM 22 for AArch64 cannot see <2 x i8> as a half, should that be next
        return e.extract(wide, 1) << 8 | e.extract(wide, 0)
    return e.view(wide.trunc("i8"), "i16", a.lanes)


@instruction(
    "cvt.rn{.relu}.f16x2.atype  d:f16x2, a:b16",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    relu="relu",
    atype=_F8,
    vectors=[
        "cvt.rn.f16x2.e4m3x2  0x38fe -> 0x3c00df00",
        "cvt.rn.relu.f16x2.e5m2x2  0xbc7f -> 0x00007fff",
    ],
)
def f16_from_f8(e: Builder, a: Val, *, relu: str, atype: str) -> Val:
    bytes_ = e.view(a, "i8", 2 * (a.lanes or 1)).zext("i16")
    if atype == "e5m2x2":
        bits = bytes_ << 8
        nan = is_nan(bits, "f16")
    else:
        small = e.reinterpret((bytes_ & 0x80) << 8 | (bytes_ & 0x7F) << 7, "half")
        bits = raw_bits(e, small * e.const("half", 2.0**8))
        nan = (bytes_ & 0x7F).eq(0x7F)
    out = nan.select(e.integer("i16", 0x7FFF), bits)
    return e.view(e.smax(out, 0) if relu else out, "i32", a.lanes)
