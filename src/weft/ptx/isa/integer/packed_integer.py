"""Integer arithmetic of sm_90: two 16-bit numbers in a register, and results not below zero."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import Builder, Val
from weft.ptx.isa.registry import instruction

_MANUAL = "integer-arithmetic-instructions-"


def _by_halves(e: Builder, operation: Callable[[Val, Val], Val], a: Val, b: Val) -> Val:
    wide = e.match(a, b)
    x, y = (e.view(v, "i16", 2 * (v.lanes or 1)) for v in wide)
    return e.view(operation(x, y), "i32", wide[0].lanes)


@instruction(
    "add.type  d:b32, a:b32, b:b32",
    manual=_MANUAL + "add",
    type="u16x2 s16x2",
    vectors=["add.u16x2  0xffff0001 0x00020003 -> 0x00010004"],
)
def add_pair(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return _by_halves(e, lambda x, y: x + y, a, b)


@instruction(
    "min.type  d:b32, a:b32, b:b32",
    manual=_MANUAL + "min",
    type="u16x2",
    vectors=["min.u16x2  0xffff0001 0x00020003 -> 0x00020001"],
)
def min_unsigned(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return _by_halves(e, e.umin, a, b)


@instruction(
    "max.type  d:b32, a:b32, b:b32",
    manual=_MANUAL + "max",
    type="u16x2",
    vectors=["max.u16x2  0xffff0001 0x00020003 -> 0xffff0003"],
)
def max_unsigned(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return _by_halves(e, e.umax, a, b)


@instruction(
    "min{.relu}.type  d:b32, a:b32, b:b32",
    manual=_MANUAL + "min",
    relu="relu",
    type="s16x2",
    vectors=[
        "min.s16x2  0xffff0001 0x00020003 -> 0xffff0001",
        "min.relu.s16x2  0xffff0001 0x00020003 -> 0x00000001",
    ],
)
def min_signed(e: Builder, a: Val, b: Val, *, relu: str, type: str) -> Val:
    return _by_halves(e, lambda x, y: _least(e, e.smin(x, y), relu), a, b)


@instruction(
    "max{.relu}.type  d:b32, a:b32, b:b32",
    manual=_MANUAL + "max",
    relu="relu",
    type="s16x2",
    vectors=[
        "max.s16x2  0xffff0001 0xfffe0003 -> 0xffff0003",
        "max.relu.s16x2  0xffff0001 0xfffe0003 -> 0x00000003",
    ],
)
def max_signed(e: Builder, a: Val, b: Val, *, relu: str, type: str) -> Val:
    return _by_halves(e, lambda x, y: _least(e, e.smax(x, y), relu), a, b)


@instruction(
    "min.relu.s32  d:s32, a:s32, b:s32",
    manual=_MANUAL + "min",
    vectors=["min.relu.s32  -5 3 -> 0", "min.relu.s32  5 3 -> 3"],
)
def min_relu(e: Builder, a: Val, b: Val) -> Val:
    return _least(e, e.smin(a, b), "relu")


@instruction(
    "max.relu.s32  d:s32, a:s32, b:s32",
    manual=_MANUAL + "max",
    vectors=["max.relu.s32  -5 -3 -> 0", "max.relu.s32  -5 3 -> 3"],
)
def max_relu(e: Builder, a: Val, b: Val) -> Val:
    return _least(e, e.smax(a, b), "relu")


def _least(e: Builder, v: Val, relu: str) -> Val:
    return e.smax(v, 0) if relu else v
