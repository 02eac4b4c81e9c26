"""Scalar video shifts: vshl, vshr. Saturated ones to the left make no sense on hardware."""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ptx.isa.integer.video import SECONDS, out_of_line, second
from weft.ptx.isa.registry import instruction

_MANUAL = "scalar-video-instructions-vshl-vshr"
_TYPES = "u32 s32"
_RANGE = {"u32": (0, (1 << 32) - 1), "s32": (-(1 << 31), (1 << 31) - 1)}


def _operands(e: Builder, a: Val, b: Val, words: dict[str, str]) -> tuple[Val, Val]:
    """The shifted value, with room on the left, and the amount."""
    amount = b & 31 if words["mode"] == "wrap" else e.umin(b, 32)
    return e.resize(a, "i64", signed=words["atype"] == "s32"), amount.zext("i64")


@instruction(
    "vshl.dtype.atype.u32.mode  d:b32, a:b32, b:b32",
    manual=_MANUAL, dtype=_TYPES, atype=_TYPES, mode="clamp wrap",
    vectors=["vshl.u32.u32.u32.clamp  1 40 -> 0", "vshl.u32.u32.u32.wrap  1 33 -> 2"],
)  # fmt: skip
@instruction(
    "vshl.dtype.atype.u32.mode.second  d:b32, a:b32, b:b32, c:b32",
    manual=_MANUAL, dtype=_TYPES, atype=_TYPES, mode="clamp wrap", second=SECONDS,
    vectors=["vshl.u32.u32.u32.clamp.add  4 0 3 -> 7"],
)  # fmt: skip
def vshl(e: Builder, *args: Val, **words: str) -> Val:
    def body(e: Builder, a: Val, b: Val, *c: Val) -> Val:
        wide, amount = _operands(e, a, b, words)
        return second(e, words, wide << amount, *c)

    return out_of_line(f"vshl{len(args)}", e, words, args, body)


@instruction(
    "vshr.dtype.atype.u32{.sat}.mode  d:b32, a:b32, b:b32",
    manual=_MANUAL, dtype=_TYPES, atype=_TYPES, sat="sat", mode="clamp wrap",
    vectors=["vshr.s32.s32.u32.clamp  -8 40 -> -1", "vshr.u32.u32.u32.wrap  8 33 -> 4"],
)  # fmt: skip
@instruction(
    "vshr.dtype.atype.u32{.sat}.mode.second  d:b32, a:b32, b:b32, c:b32",
    manual=_MANUAL, dtype=_TYPES, atype=_TYPES, sat="sat", mode="clamp wrap", second=SECONDS,
    vectors=["vshr.u32.u32.u32.clamp.max  4 1 3 -> 3",
             "vshr.u32.u32.u32.sat.clamp.max  0xffff8000 0 0xfffffffb -> 0xffff8000"],
)  # fmt: skip
def vshr(e: Builder, *args: Val, **words: str) -> Val:
    def body(e: Builder, a: Val, b: Val, *c: Val) -> Val:
        wide, amount = _operands(e, a, b, words)
        value = wide.ashr(amount)
        if words["sat"]:
            low, high = _RANGE[words["dtype"]]
            value = e.smin(e.smax(value, low), high).trunc("i32").sext("i64")
        return second(e, words, value, *c)

    return out_of_line(f"vshr{len(args)}", e, words, args, body)
