"""Integer arithmetic: rows of the PTX manual's section 'Integer Arithmetic Instructions'."""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ptx.isa.registry import instruction

_INTS = "u16 u32 u64 s16 s32 s64"


@instruction(
    "add.type  d, a, b",
    manual="integer-arithmetic-instructions-add",
    type=_INTS,
    vectors=["add.s32  2 3 -> 5", "add.u16  65535 1 -> 0"],
)
def add(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a + b


@instruction(
    "mad.lo.type  d, a, b, c",
    manual="integer-arithmetic-instructions-mad",
    type=_INTS,
    vectors=["mad.lo.s32  2 3 4 -> 10"],
)
def mad_lo(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return a * b + c
