"""The approximate functions of f16 and bf16: the f32 function of the exact value, cut."""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ir.flush import from_bits
from weft.ptx.isa.columns import WorkUnit
from weft.ptx.isa.floating.approx import mufu
from weft.ptx.isa.registry import instruction


@instruction(
    "ex2.approx.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="half-precision-floating-point-instructions-ex2",
    type="f16 f16x2",
    vectors=["ex2.approx.f16  3.0 -> 8.0", "ex2.approx.f16x2  0xcc00c400 -> 0x01002c00"],
)
def ex2_f16(e: Builder, a: Val, *, type: str) -> Val:
    return _each_half(e, "ex2", a, type)


@instruction(
    "ex2.approx.ftz.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="half-precision-floating-point-instructions-ex2",
    type="bf16 bf16x2",
    vectors=["ex2.approx.ftz.bf16  0x4040 -> 0x4100"],
)
def ex2_bf16(e: Builder, a: Val, *, type: str) -> Val:
    return _each_half(e, "ex2", a, type)


@instruction(
    "tanh.approx.type  d, a",
    work=WorkUnit.SPECIAL,
    manual="half-precision-floating-point-instructions-tanh",
    type="f16 f16x2 bf16 bf16x2",
    vectors=["tanh.approx.f16  -9.0 -> -1.0", "tanh.approx.bf16x2  0x7fc04110 -> 0x7fff3f80"],
)
def tanh_16(e: Builder, a: Val, *, type: str) -> Val:
    return _each_half(e, "tanh", a, type)


def _each_half(e: Builder, name: str, a: Val, type: str) -> Val:
    """The function on a 16-bit value, or on both halves of a packed pair."""
    kind = type.removesuffix("x2")

    def one(v: Val) -> Val:
        return e.lanewise(
            f"{name}.{kind}",
            [v],
            "i16",
            lambda b, v: _CUT[kind](b, mufu(b, name, _WIDE[kind](b, v))),
        )

    if type == kind:
        return e.reinterpret(one(e.bits(a)), a.element)
    low, high = one(a.trunc("i16")), one((a >> 16).trunc("i16"))
    return (high.zext("i32") << 16) | low.zext("i32")


def _wide_f16(b: Builder, v: Val) -> Val:
    return b.cast("fpext", b.reinterpret(v, "half"), "float")


def _wide_bf16(b: Builder, v: Val) -> Val:
    return from_bits(b, v.zext("i32") << 16)


def _cut_f16(b: Builder, r: Val) -> Val:
    """Toward zero, denormals kept; from 2^16 on infinite."""
    bits = b.bits(r)
    magnitude = bits & 0x7FFFFFFF
    tiny = magnitude.ult(0x38800000)  # below 2^-14 the bits are the value in units of 2^-24
    steps = b.select(tiny, b.fabs(r), b.const("float", 0.0)) * b.const("float", 2.0**24)
    out = tiny.select(b.cast("fptosi", steps, "i32"), (magnitude >> 13) - (112 << 10))
    out = magnitude.ult(0x47800000).select(out, 0x7C00)
    out = magnitude.ule(0x7F800000).select(out, 0x7FFF)
    return (out | ((bits >> 16) & 0x8000)).trunc("i16")


def _cut_bf16(b: Builder, r: Val) -> Val:
    return (b.bits(r) >> 16).trunc("i16")


_WIDE = {"f16": _wide_f16, "bf16": _wide_bf16}
_CUT = {"f16": _cut_f16, "bf16": _cut_bf16}
