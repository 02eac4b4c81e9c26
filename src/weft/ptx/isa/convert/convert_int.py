"""`cvt` with an integer on one side or both, and `cvt.pack`.

https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ir.narrow import (
    IR_TYPES,
    float_from_bfloat,
    float_from_int,
    flush,
    int_from_float,
    raw_bits,
    saturate,
)
from weft.ptx.isa.columns import Accepts, ResultForm, WorkUnit
from weft.ptx.isa.registry import instruction

_MANUAL = "data-movement-and-conversion-instructions-cvt"
_INTS = "u8 s8 u16 s16 u32 s32 u64 s64"
_FLOATS = "f16 bf16 f32 f64"
_INLINE = {("f32", "s32"), ("f32", "u32"), ("f64", "s32"), ("f64", "u32")}
"""Conversions to a float (nearest) that are one instruction or two."""


def _range(type: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type such as s16 or u4."""
    bits, signed = int(type[1:]), type[0] == "s"
    return (-(1 << (bits - 1)) if signed else 0), (1 << (bits - signed)) - 1


def _clamp(e: Builder, a: Val, source: str, dest: str) -> Val:
    """A value of type `source` limited to what `dest` can hold, still in its own width."""
    (low, high), (least, most) = _range(source), _range(dest)
    if low < least:
        a = e.smax(a, least)
    if high > most:
        a = e.smin(a, most) if source[0] == "s" else e.umin(a, most)
    return a


@instruction(
    "cvt{.sat}.dtype.atype  d:dtype, a:atype",
    form=ResultForm.CONVERSION,
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    sat="sat",
    dtype=_INTS,
    atype=_INTS,
    vectors=[
        "cvt.u64.s32  -1 -> 0xffffffffffffffff",
        "cvt.s64.u32  -1 -> 4294967295",
        "cvt.sat.s8.s32  300 -> 127",
        "cvt.sat.u16.s32  -5 -> 0",
    ],
)
def int_to_int(e: Builder, a: Val, *, sat: str, dtype: str, atype: str) -> Val:
    a = _clamp(e, a, atype, dtype) if sat else a
    return e.resize(a, f"i{dtype[1:]}", signed=atype[0] == "s")


@instruction(
    "cvt.irnd{.ftz}{.sat}.dtype.atype  d:dtype, a:atype",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    irnd="rni rzi rmi rpi",
    ftz="ftz",
    sat="sat",
    dtype=_INTS,
    atype=_FLOATS,
    vectors=[
        "cvt.rni.s32.f32  2.5 -> 2",
        "cvt.rmi.s32.f32  -2.5 -> -3",
        "cvt.rzi.u8.f32  1e9 -> 255",
        "cvt.rzi.s32.f64  nan -> 0x80000000",
    ],
    notes="Out of range saturates with and without .sat.",
)
def float_to_int(
    e: Builder, a: Val, *, irnd: str, ftz: str, sat: str, dtype: str, atype: str
) -> Val:
    def body(b: Builder, v: Val) -> Val:
        if atype == "bf16":
            v = float_from_bfloat(b, v)
        elif atype == "f16":
            v = b.cast("fpext", v, "float")
        elif ftz and atype == "f32":
            v = b.reinterpret(flush(raw_bits(b, v), "f32"), "float")
        return int_from_float(b, v, irnd, int(dtype[1:]), signed=dtype[0] == "s")

    if dtype == "s32" and atype == "f32":
        return body(e, a)
    return e.lanewise(f"cvt.{irnd}{ftz}.{dtype}.{atype}", [a], f"i{dtype[1:]}", body)


@instruction(
    "cvt.frnd{.ftz}{.sat}.dtype.atype  d:dtype, a:atype",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual=_MANUAL,
    frnd="rn rz rm rp",
    ftz="ftz",
    sat="sat",
    dtype=_FLOATS,
    atype=_INTS,
    vectors=[
        "cvt.rn.f32.s32  -7 -> -7.0",
        "cvt.rz.f32.u32  0xffffffff -> 0x4f7fffff",
        "cvt.rp.f16.s32  100000 -> inf",
        "cvt.rn.f32.u64  0x8000008000000001 -> 0x5f000001",
    ],
    notes="An integer is never a subnormal float: .ftz changes nothing.",
)
def int_to_float(
    e: Builder, a: Val, *, frnd: str, ftz: str, sat: str, dtype: str, atype: str
) -> Val:
    ty = IR_TYPES[dtype]

    def body(b: Builder, v: Val) -> Val:
        bits = float_from_int(b, v, dtype, frnd, signed=atype[0] == "s")
        return b.reinterpret(saturate(b, bits, dtype) if sat else bits, ty)

    # Exact in f32 and f64, so that there is nothing to round and the code is short.
    small = a.bits < 32 and dtype in ("f32", "f64")
    if small or (frnd == "rn" and (dtype, atype) in _INLINE):
        return body(e, a)
    return e.lanewise(f"cvt.{frnd}{sat}.{dtype}.{atype}", [a], ty, body)


@instruction(
    "cvt.pack.sat.ctype.s32  d:b32, a:s32, b:s32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual="data-movement-and-conversion-instructions-cvt-pack",
    ctype="u16 s16",
    vectors=["cvt.pack.sat.u16.s32  70000 -1 -> 0xffff0000"],
)
def pack(e: Builder, a: Val, b: Val, *, ctype: str) -> Val:
    high, low = (_clamp(e, v, "s32", ctype) for v in (a, b))
    return high << 16 | (low & 0xFFFF)


@instruction(
    "cvt.pack.sat.ctype.s32.b32  d:b32, a:s32, b:s32, c:b32",
    work=WorkUnit.CONVERT,
    accepts=Accepts.WIDER,
    manual="data-movement-and-conversion-instructions-cvt-pack",
    ctype="u2 s2 u4 s4 u8 s8",
    vectors=["cvt.pack.sat.s8.s32.b32  300 -1 0xabcd -> 0xabcd7fff"],
)
def pack_onto(e: Builder, a: Val, b: Val, c: Val, *, ctype: str) -> Val:
    bits = int(ctype[1:])
    high, low = (_clamp(e, v, "s32", ctype) & ((1 << bits) - 1) for v in (a, b))
    return c << (2 * bits) | high << bits | low
