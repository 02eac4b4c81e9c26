"""`cvt` from float to float: f16, bf16, f32 and f64 in every pair, and rounding to an integral
value within one type.

https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt

Where f64 takes part a NaN keeps its sign and payload, elsewhere it becomes the canonical one;
bf16 to f32 is a shift, and f32 to f32 or f64 to f64 a move, which look at nothing.
"""

from __future__ import annotations

from weft.errors import UnsupportedInstruction
from weft.ir import Builder, Val
from weft.ir.narrow import (
    INTEGRAL,
    IR_TYPES,
    WIDTHS,
    bfloat_from_float,
    float_from_bfloat,
    float_from_double,
    flush,
    half_from_float,
    infinity,
    is_nan,
    keep_nan,
    raw_bits,
    saturate,
)
from weft.ptx.isa.columns import Accepts, Nan, WorkUnit
from weft.ptx.isa.registry import instruction

_MANUAL = "data-movement-and-conversion-instructions-cvt"
_FLOATS = "f16 bf16 f32 f64"
_TO_16 = {"f16": half_from_float, "bf16": bfloat_from_float}
_SIZE = {kind: 1 + sum(widths) for kind, widths in WIDTHS.items()}


def as_float(b: Builder, v: Val, kind: str) -> Val:
    """A value of 16 or 32 bits as f32, exactly."""
    if kind == "bf16":
        return float_from_bfloat(b, v)
    return b.cast("fpext", v, "float") if kind == "f16" else v


def _flush_source(b: Builder, v: Val) -> Val:
    """Apply `.ftz` to an f32 source: it passes through an f32 operation."""
    flushed = b.reinterpret(flush(raw_bits(b, v), "f32"), "float")
    flushed.raw_nan = True
    return b.canonical(flushed)


def _narrowed(b: Builder, v: Val, mode: str, dtype: str, atype: str, ftz: bool) -> Val:
    """Bits of a value in a 16-bit format. As on hardware, `.ftz` flushes f32 for bf16, not f16."""
    if atype == "f64":
        odd = b.reinterpret(float_from_double(b, v, "odd"), "float")
        return keep_nan(b, _TO_16[dtype](b, odd, mode), raw_bits(b, v), "f64", dtype)
    wide = as_float(b, v, atype)
    if ftz and dtype == "bf16":
        wide = _flush_source(b, wide)
    return _TO_16[dtype](b, wide, mode)


def _converted(b: Builder, v: Val, mode: str, dtype: str, atype: str, ftz: bool) -> Val:
    """Bits of `v` in the format `dtype`."""
    if dtype == atype and dtype in _TO_16:
        bits = raw_bits(b, v)
        return is_nan(bits, dtype).select(b.integer("i16", 0x7FFF), bits)
    if dtype == atype and not ftz:
        return b.bits(v)
    if dtype in _TO_16:
        return _narrowed(b, v, mode, dtype, atype, ftz)
    if dtype == "f32":
        if atype == "f64":
            bits = float_from_double(b, v, mode, ftz=ftz)
            return keep_nan(b, bits, raw_bits(b, v), "f64", "f32")
        wide = as_float(b, v, atype)
        return b.bits(_flush_source(b, wide) if ftz and atype != "f16" else wide)
    if ftz and atype == "f32":
        v = _flush_source(b, v)
    bits = raw_bits(b, b.cast("fpext", as_float(b, v, atype), "double"))
    return keep_nan(b, bits, raw_bits(b, v), atype, "f64")


def _emit(
    e: Builder, a: Val, *, mode: str, dtype: str, atype: str, ftz: str = "", sat: str = "",
    relu: str = "", satfinite: str = "",
) -> Val:  # fmt: skip
    ty = IR_TYPES[dtype]
    plain = not (ftz or sat or relu or satfinite)
    if plain and dtype == atype == "f32":
        return a
    if plain and (atype, dtype) == ("f16", "f32"):
        return e.cast("fpext", a, "float")

    def body(b: Builder, v: Val) -> Val:
        bits = _converted(b, v, mode, dtype, atype, bool(ftz))
        return b.reinterpret(limited(b, bits, dtype, sat, relu, satfinite), ty)

    # From here on the bits count: a NaN of the host's arithmetic must not show.
    a = e.canonical(a)
    # A few instructions, which are inlined. Directed rounding and f64 take many more.
    if mode == "rn" and {atype, dtype} <= {"f16", "bf16", "f32"}:
        return body(e, a)
    return e.lanewise(f"cvt.{mode}{ftz}{sat}{relu}{satfinite}.{dtype}.{atype}", [a], ty, body)


def limited(b: Builder, bits: Val, kind: str, sat: str, relu: str, satfinite: str) -> Val:
    """`.sat`, `.relu` and `.satfinite` on the bits of a result whose NaN is canonical."""
    if satfinite:
        magnitude = bits & ((1 << (_SIZE[kind] - 1)) - 1)
        # The pattern below infinity is the largest finite number.
        bits = bits - magnitude.eq(infinity(kind)).zext(bits.element)
    if relu:
        bits = b.smax(bits, 0)
    return saturate(b, bits, kind) if sat else bits


@instruction(
    "cvt.frnd{.ftz}{.sat}{.relu}{.satfinite}.dtype.atype  d:dtype, a:atype",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    frnd="rn rz rm rp",
    ftz="ftz",
    sat="sat",
    relu="relu",
    satfinite="satfinite",
    dtype=_FLOATS,
    atype=_FLOATS,
    vectors=[
        "cvt.rn.f16.f32  65520.0 -> inf",
        "cvt.rz.f32.f64  0x3ff0000010000001 -> 1.0",
        "cvt.rn.relu.bf16.f32  -2.0 -> 0x0000",
        "cvt.rn.f16.f64  0x3f00000000000001 -> 0x0200",
    ],
)
def rounded(
    e: Builder, a: Val, *, frnd: str, ftz: str, sat: str, relu: str, satfinite: str,
    dtype: str, atype: str,
) -> Val:  # fmt: skip
    return _emit(
        e, a, mode=frnd, dtype=dtype, atype=atype, ftz=ftz, sat=sat, relu=relu, satfinite=satfinite
    )


@instruction(
    "cvt.f32.f32  d:f32, a:f32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    nans=Nan.COPIED,  # without `.ftz` and `.sat` nothing is computed
    vectors=["cvt.f32.f32  0x7f800001 -> 0x7f800001"],
)
def unchanged(e: Builder, a: Val) -> Val:
    return _emit(e, a, mode="rn", dtype="f32", atype="f32", ftz="", sat="")


@instruction(
    "cvt{.ftz}{.sat}.dtype.atype  d:dtype, a:atype",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    ftz="ftz",
    sat="sat",
    dtype=_FLOATS,
    atype=_FLOATS,
    nans=Nan.RAW,
    vectors=[
        "cvt.f32.bf16  0x7f81 -> 0x7f810000",
        "cvt.f64.f32  0xff800001 -> 0xfff8000020000000",
        "cvt.sat.f32.f32  1.5 -> 1.0",
        "cvt.f32.f16  nan -> 0x7fffffff",
    ],
)
def exact(e: Builder, a: Val, *, ftz: str, sat: str, dtype: str, atype: str) -> Val:
    if _SIZE[dtype] < _SIZE[atype]:
        raise UnsupportedInstruction(
            f"cvt.{dtype}.{atype}: a conversion to a shorter float must say how it rounds",
            got="no rounding",
            allowed=".rn .rz .rm .rp",
        )
    return _emit(e, a, mode="rn", dtype=dtype, atype=atype, ftz=ftz, sat=sat)


@instruction(
    "cvt.irnd{.ftz}{.sat}.dtype.atype  d:dtype, a:atype",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    irnd="rni rzi rmi rpi",
    ftz="ftz",
    sat="sat",
    dtype=_FLOATS,
    atype=_FLOATS,
    nans=Nan.RAW,
    vectors=[
        "cvt.rni.f32.f32  2.5 -> 2.0",
        "cvt.rpi.f32.f32  -0.5 -> -0.0",
        "cvt.rmi.f64.f64  -0.5 -> -1.0",
    ],
)
def integral(e: Builder, a: Val, *, irnd: str, ftz: str, sat: str, dtype: str, atype: str) -> Val:
    if dtype != atype:
        raise UnsupportedInstruction(
            f"cvt.{irnd}.{dtype}.{atype}: rounding to an integral value keeps the type",
            got=f".{dtype}.{atype}",
            allowed=f".{atype}.{atype}, or an integer destination",
        )

    def body(b: Builder, v: Val) -> Val:
        if dtype == "f32" and ftz:
            v = b.reinterpret(flush(raw_bits(b, v), "f32"), "float")
        whole = b.intrinsic(INTEGRAL[irnd], [as_float(b, v, dtype)])
        whole.raw_nan = True
        if dtype in _TO_16:
            bits = _TO_16[dtype](b, whole, "rn")
        elif dtype == "f32":
            if not sat:
                return whole
            bits = raw_bits(b, whole)
        else:
            bits = keep_nan(b, raw_bits(b, whole), raw_bits(b, v), "f64", "f64")
        return b.reinterpret(saturate(b, bits, dtype) if sat else bits, IR_TYPES[dtype])

    if dtype == "f32":
        return body(e, a)
    return e.lanewise(f"cvt.{irnd}{sat}.{dtype}.{atype}", [a], IR_TYPES[dtype], body)
