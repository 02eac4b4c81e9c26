"""Counting, finding, reversing and cutting bits: the integer instructions on bit fields.

32-bit fields take position and length modulo 256; 64-bit ones take them as they are, so that a
position of 64 or more lies outside and a length of 64 or more takes all.
"""

from __future__ import annotations

from weft.ir import Builder, Val
from weft.ptx.isa.registry import instruction


@instruction(
    "popc.type  d:u32, a",
    manual="integer-arithmetic-instructions-popc",
    type="b32 b64",
    vectors=["popc.b32  0xf0f0 -> 8", "popc.b64  -1 -> 64"],
)
def popc(e: Builder, a: Val, *, type: str) -> Val:
    return e.resize(e.intrinsic("ctpop", [a]), "i32")


def _leading_zeros(e: Builder, a: Val) -> Val:
    # With `false`, LLVM defines the count for zero as the width; with `true` it is poison.
    return e.resize(e.intrinsic("ctlz", [a], extra="false"), "i32")


@instruction(
    "clz.type  d:u32, a",
    manual="integer-arithmetic-instructions-clz",
    type="b32 b64",
    vectors=["clz.b32  1 -> 31", "clz.b32  0 -> 32", "clz.b64  0 -> 64"],
)
def clz(e: Builder, a: Val, *, type: str) -> Val:
    return _leading_zeros(e, a)


@instruction(
    "bfind{.shiftamt}.type  d:u32, a",
    manual="integer-arithmetic-instructions-bfind",
    type="u32 u64 s32 s64",
    shiftamt="shiftamt",
    vectors=[
        "bfind.u32  0x10 -> 4",
        "bfind.s32  -1 -> 0xffffffff",
        "bfind.shiftamt.u32  0x10 -> 27",
        "bfind.shiftamt.s64  0 -> 0xffffffff",
    ],
)
def bfind(e: Builder, a: Val, *, type: str, shiftamt: str) -> Val:
    seen = a ^ a.ashr(a.bits - 1) if type[0] == "s" else a
    zeros = _leading_zeros(e, seen)
    if not shiftamt:
        return (a.bits - 1) - zeros
    return seen.eq(0).select(e.like(zeros, -1), zeros)


@instruction(
    "brev.type  d, a",
    manual="integer-arithmetic-instructions-brev",
    type="b32 b64",
    vectors=["brev.b32  1 -> 0x80000000", "brev.b64  3 -> 0xc000000000000000"],
)
def brev(e: Builder, a: Val, *, type: str) -> Val:
    return e.intrinsic("bitreverse", [a])


# ---- fns ---------------------------------------------------------------------------------------
def _nth_bit(e: Builder, mask: Val, nth: Val) -> Val:
    """Position of the nth (1 and up) set bit, all ones if there are fewer: a binary search."""
    at, rest = e.zero("i32", mask.lanes), mask
    for half in (16, 8, 4, 2, 1):
        below = e.intrinsic("ctpop", [rest & ((1 << half) - 1)])
        beyond = nth.ugt(below)
        nth = beyond.select(nth - below, nth)
        rest = beyond.select(rest >> half, rest)
        at = beyond.select(at + half, at)
    is_nth = nth.eq(1) & (rest & 1).ne(0)
    return is_nth.select(at, -1)


def _fns(e: Builder, mask: Val, base: Val, offset: Val) -> Val:
    down = offset.slt(0)
    mirrored = e.intrinsic("bitreverse", [mask])
    start = base & 31
    start = down.select(31 - start, start)
    seen = (down.select(mirrored, mask) >> start) << start
    # offset 0 asks for the base itself: the first bit of a mask that holds no other
    start_bit = e.like(mask, 1) << start
    seen = offset.eq(0).select(seen & start_bit, seen)
    nth = e.umax(e.intrinsic("abs", [offset], extra="false"), 1)
    at = _nth_bit(e, seen, nth)
    at = (down & at.ne(-1)).select(31 - at, at)
    at = base.ult(32).select(at, -1)
    return offset.eq(1 << 31).select(e.like(at, 0), at)  # its magnitude has no 32-bit sign


@instruction(
    "fns.b32  d:b32, a:b32, b:b32, c:s32",
    manual="integer-arithmetic-instructions-fns",
    vectors=[
        "fns.b32  0xa0 0 2 -> 7",
        "fns.b32  0xa0 7 -2 -> 5",
        "fns.b32  0xa0 5 0 -> 5",
        "fns.b32  0xa0 6 0 -> 0xffffffff",
    ],
)
def fns(e: Builder, a: Val, b: Val, c: Val) -> Val:
    return e.lanewise("fns", [a, b, c], "i32", _fns)


# ---- fields ------------------------------------------------------------------------------------
def _low_bits(e: Builder, count: Val, like: Val) -> Val:
    """A mask of the lowest `count` bits, all of them from the width on."""
    # Poison from the width on, where `select` drops it.
    some = (e.like(like, 1) << e.resize(count, like.element)) - 1
    return count.ult(like.bits).select(some, -1)


def _place(v: Val, like: Val) -> Val:
    """Position or length as the hardware reads it."""
    return v & 0xFF if like.bits == 32 else v


def _bfe_unsigned(e: Builder, a: Val, pos: Val, length: Val) -> Val:
    pos, length = _place(pos, a), _place(length, a)
    field = pos.ult(a.bits).select(a >> e.resize(pos, a.element), 0)
    return field & _low_bits(e, length, a)


def _bfe_signed(e: Builder, a: Val, pos: Val, length: Val) -> Val:
    pos, length = _place(pos, a), _place(length, a)
    field = a.ashr(e.resize(e.umin(pos, a.bits - 1), a.element))
    return _sign_extended(e, field, e.umin(length, a.bits))


def _sign_extended(e: Builder, v: Val, length: Val) -> Val:
    """The lowest `length` bits as a signed number; 0 for length 0."""
    spare = e.resize(v.bits - length, v.element)
    return length.ne(0).select((v << spare).ashr(spare), 0)


@instruction(
    "bfe.type  d, a, b:u32, c:u32",
    manual="integer-arithmetic-instructions-bfe",
    type="u32 u64 s32 s64",
    vectors=[
        "bfe.u32  0x12345678 8 8 -> 0x56",
        "bfe.s32  0x0000f000 12 4 -> -1",
        "bfe.u32  0xff 256 260 -> 0xf",
        "bfe.s64  0x8000000000000000 64 4 -> -1",
    ],
)
def bfe(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    body = _bfe_signed if type[0] == "s" else _bfe_unsigned
    if b.is_const and c.is_const:
        return body(e, a, b, c)  # a shift and a mask once LLVM has folded it
    return e.lanewise(f"bfe.{type}", [a, b, c], a.element, body)


def _bfi(e: Builder, a: Val, b: Val, pos: Val, length: Val) -> Val:
    pos, length = _place(pos, a), _place(length, a)
    shift = e.resize(pos, a.element)
    inside = pos.ult(a.bits)
    mask = inside.select(_low_bits(e, length, a) << shift, 0)
    return (b & ~mask) | (inside.select(a << shift, 0) & mask)


@instruction(
    "bfi.type  d, a, b, c:u32, length:u32",
    manual="integer-arithmetic-instructions-bfi",
    type="b32 b64",
    vectors=[
        "bfi.b32  0xab 0x11111111 8 8 -> 0x1111ab11",
        "bfi.b64  -1 0 60 99 -> 0xf000000000000000",
        "bfi.b64  -1 5 256 8 -> 5",
    ],
)
def bfi(e: Builder, a: Val, b: Val, c: Val, length: Val, *, type: str) -> Val:
    if c.is_const and length.is_const:
        return _bfi(e, a, b, c, length)
    return e.lanewise(f"bfi.{type}", [a, b, c, length], a.element, _bfi)


def _amount(e: Builder, v: Val, mode: str) -> Val:
    return v & 31 if mode == "wrap" else e.umin(v, 32)


@instruction(
    "szext.mode.type  d, a, b:u32",
    manual="integer-arithmetic-instructions-szext",
    mode="clamp wrap",
    type="u32 s32",
    vectors=[
        "szext.clamp.s32  0xff 8 -> -1",
        "szext.wrap.u32  0x1ff 40 -> 0xff",
        "szext.clamp.u32  -1 99 -> -1",
    ],
)
def szext(e: Builder, a: Val, b: Val, *, mode: str, type: str) -> Val:
    width = _amount(e, b, mode)
    return _sign_extended(e, a, width) if type == "s32" else a & _low_bits(e, width, a)


@instruction(
    "bmsk.mode.b32  d:b32, a:u32, b:u32",
    manual="integer-arithmetic-instructions-bmsk",
    mode="clamp wrap",
    vectors=[
        "bmsk.clamp.b32  4 8 -> 0xff0",
        "bmsk.clamp.b32  0 99 -> -1",
        "bmsk.wrap.b32  36 33 -> 0x10",
    ],
)
def bmsk(e: Builder, a: Val, b: Val, *, mode: str) -> Val:
    start = _amount(e, a, mode)
    return start.ult(32).select(_low_bits(e, _amount(e, b, mode), a) << start, 0)
