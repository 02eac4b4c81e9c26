"""Logic and shifts: rows of the PTX manual's section 'Logic and Shift Instructions'.

Shift amounts are 32-bit and clamp to the width; IR shifts by the width or more are undefined, so
each is guarded by a select, which vector units with clamping shifts fold away.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir import Builder, Val
from weft.ptx.isa.columns import Accepts, ResultForm, WorkUnit
from weft.ptx.isa.constant import const_int
from weft.ptx.isa.registry import instruction

_BITS = "b16 b32 b64"


@instruction(
    "and.type  d, a, b",
    form=ResultForm.AND,
    manual="logic-and-shift-instructions-and",
    type="pred b16 b32 b64",
    accepts=Accepts.TRUTH,
    vectors=["and.b32  12 10 -> 8", "and.pred  1 0 -> 0"],
)
def and_(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a & b


@instruction(
    "or.type  d, a, b",
    form=ResultForm.OR,
    manual="logic-and-shift-instructions-or",
    type="pred b16 b32 b64",
    accepts=Accepts.TRUTH,
    vectors=["or.b16  12 10 -> 14", "or.pred  1 0 -> 1"],
)
def or_(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a | b


@instruction(
    "xor.type  d, a, b",
    form=ResultForm.XOR,
    manual="logic-and-shift-instructions-xor",
    type="pred b16 b32 b64",
    accepts=Accepts.TRUTH,
    vectors=["xor.b64  12 10 -> 6", "xor.pred  1 1 -> 0"],
)
def xor(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a ^ b


@instruction(
    "not.type  d, a",
    form=ResultForm.NOT,
    manual="logic-and-shift-instructions-not",
    type="pred b16 b32 b64",
    vectors=["not.b32  0 -> 0xffffffff", "not.pred  1 -> 0"],
)
def not_(e: Builder, a: Val, *, type: str) -> Val:
    return ~a


@instruction(
    "cnot.type  d, a",
    manual="logic-and-shift-instructions-cnot",
    type=_BITS,
    vectors=["cnot.b32  0 -> 1", "cnot.b16  5 -> 0"],
)
def cnot(e: Builder, a: Val, *, type: str) -> Val:
    return a.eq(0).zext(a.element)


# ---- lop3 --------------------------------------------------------------------------------------
def _by_table(e: Builder, table: int, inputs: Sequence[Val]) -> Val:
    """The function of `inputs` with this truth table (the first input is the index's top bit)."""
    size = 1 << len(inputs)
    ones = (1 << size) - 1
    if table in (0, ones):
        return e.integer("i32", -1 if table else 0)
    x, rest, half = inputs[0], inputs[1:], size // 2
    high, low = table >> half, table & ((1 << half) - 1)
    full = (1 << half) - 1
    if high == low:
        return _by_table(e, low, rest)
    if high == low ^ full:
        return x ^ _by_table(e, low, rest)
    if low == 0:
        return x & _by_table(e, high, rest)
    if high == 0:
        return ~x & _by_table(e, low, rest)
    if high == full:
        return x | _by_table(e, low, rest)
    if low == full:
        return ~x | _by_table(e, high, rest)
    # No shortcut: x flips the function where the two halves of the table differ.
    return _by_table(e, low, rest) ^ (x & _by_table(e, high ^ low, rest))


def _any_table(e: Builder, a: Val, b: Val, c: Val, table: Val) -> Val:
    """The same with a table that is a value: the sum of its eight products."""
    total = e.zero("i32", a.lanes)
    for index in range(8):
        term = (table << (31 - index)).ashr(31)
        for place, x in ((4, a), (2, b), (1, c)):
            term = term & (x if index & place else ~x)
        total = total | term
    return total


def _lop3(e: Builder, a: Val, b: Val, c: Val, table: Val) -> Val:
    constant = const_int(table)
    if constant is not None:
        return _by_table(e, constant & 0xFF, (a, b, c))
    return e.lanewise("lop3", [a, b, c, table], "i32", _any_table)


@instruction(
    "lop3.b32  d:b32, a:b32, b:b32, c:b32, table:b32",
    manual="logic-and-shift-instructions-lop3",
    vectors=[
        "lop3.b32  0xf0 0xcc 0xaa 0x96 -> 0x96",
        "lop3.b32  12 10 6 0x80 -> 0",
        "lop3.b32  0 0 0 1 -> 0xffffffff",
    ],
)
def lop3(e: Builder, a: Val, b: Val, c: Val, table: Val) -> Val:
    return _lop3(e, a, b, c, table)


@instruction(
    "lop3.op.b32  d|p:b32, a:b32, b:b32, c:b32, table:b32, other:pred",
    manual="logic-and-shift-instructions-lop3",
    op="or and",
    vectors=["lop3.or.b32  1 2 4 0xfe 0 -> 7 1", "lop3.and.b32  1 2 4 0xfe 0 -> 7 0"],
)
def lop3_bool(
    e: Builder, a: Val, b: Val, c: Val, table: Val, other: Val, *, op: str
) -> tuple[Val, Val]:
    d = _lop3(e, a, b, c, table)
    return d, e.binary(op, d.ne(0), other)


# ---- shifts ------------------------------------------------------------------------------------
@instruction(
    "shl.type  d, a, b:u32",
    form=ResultForm.LEFT_SHIFT,
    manual="logic-and-shift-instructions-shl",
    type=_BITS,
    vectors=["shl.b32  1 31 -> 0x80000000", "shl.b32  1 32 -> 0", "shl.b16  1 65536 -> 0"],
)
def shl(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return b.ult(a.bits).select(a << e.resize(b, a.element), 0)


@instruction(
    "shr.type  d, a, b:u32",
    form=ResultForm.RIGHT_SHIFT,
    manual="logic-and-shift-instructions-shr",
    type="b16 b32 b64 u16 u32 u64",
    vectors=["shr.u32  0x80000000 31 -> 1", "shr.b64  -1 64 -> 0"],
)
def shr(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return b.ult(a.bits).select(a >> e.resize(b, a.element), 0)


@instruction(
    "shr.type  d, a, b:u32",
    form=ResultForm.RIGHT_SHIFT,
    manual="logic-and-shift-instructions-shr",
    type="s16 s32 s64",
    vectors=["shr.s32  -8 1 -> -4", "shr.s16  0x8000 4096 -> 0xffff"],
)
def shr_signed(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a.ashr(e.resize(e.umin(b, a.bits - 1), a.element))


@instruction(
    "shf.dir.mode.b32  d:b32, a:b32, b:b32, c:u32",
    manual="logic-and-shift-instructions-shf",
    dir="l r",
    mode="clamp wrap",
    vectors=[
        "shf.l.wrap.b32  0x80000000 1 1 -> 3",
        "shf.l.clamp.b32  5 7 99 -> 5",
        "shf.r.clamp.b32  5 7 32 -> 7",
        "shf.r.wrap.b32  0 1 1 -> 0x80000000",
    ],
)
def shf(e: Builder, a: Val, b: Val, c: Val, *, dir: str, mode: str) -> Val:
    # LLVM's funnel shifts take the amount modulo 32, as `.wrap` does.
    shifted = e.intrinsic(f"fsh{dir}", [b, a, c])
    if mode == "wrap":
        return shifted
    return c.ult(32).select(shifted, a if dir == "l" else b)


# ---- bytes -------------------------------------------------------------------------------------
_SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""The selectors of each mode of prmt, by the low two bits of its third operand."""


def _picked(e: Builder, a: Val, b: Val, selector: Val) -> Val:
    """Four bytes of b:a by the nibbles of `selector`; bit 3 replicates the byte's sign."""
    source = (b.zext("i64") << 32) | a.zext("i64")
    out = e.zero("i32", a.lanes)
    for i in range(4):
        nibble = selector >> (4 * i)
        byte = (source >> ((nibble & 7) << 3).zext("i64")).trunc("i32") & 0xFF
        sign = 0 - (byte >> 7)
        byte = (nibble & 8).ne(0).select(sign & 0xFF, byte)
        out = out | (byte << (8 * i))
    return out


def _shuffled(e: Builder, a: Val, b: Val, selector: int) -> Val:
    """The same with a known selector: one shuffle of all bytes."""
    a, b = e.match(a, b)
    lanes = max(a.lanes, 1)
    nibbles = [selector >> (4 * i) & 15 for i in range(4)]
    places = [
        (n & 3) + 4 * lane + (4 * lanes if n & 4 else 0) for lane in range(lanes) for n in nibbles
    ]
    width = 4 * lanes
    out = e.shuffle(e.view(a, "i8", width), places, e.view(b, "i8", width))
    if selector & 0x8888:
        signs = e.lanes("i1", [n >> 3 for n in nibbles] * lanes)
        out = signs.select(out.ashr(7), out)
    return e.view(out, "i32", a.lanes)


def _permute(e: Builder, a: Val, b: Val, selector: Val) -> Val:
    constant = const_int(selector)
    if constant is not None:
        return _shuffled(e, a, b, constant)
    return e.lanewise("prmt", [a, b, selector], "i32", _picked)


@instruction(
    "prmt.b32  d:b32, a:b32, b:b32, c:b32",
    work=WorkUnit.MOVE,
    manual="data-movement-and-conversion-instructions-prmt",
    vectors=[
        "prmt.b32  0x33221100 0x77665544 0x7531 -> 0x77553311",
        "prmt.b32  0x00008000 0 0x9999 -> 0xffffffff",
    ],
)
def prmt(e: Builder, a: Val, b: Val, c: Val) -> Val:
    return _permute(e, a, b, c)


@instruction(
    "prmt.b32.mode  d:b32, a:b32, b:b32, c:b32",
    work=WorkUnit.MOVE,
    manual="data-movement-and-conversion-instructions-prmt",
    mode=" ".join(_SELECTORS),
    vectors=[
        "prmt.b32.f4e  0x33221100 0x77665544 1 -> 0x44332211",
        "prmt.b32.b4e  0x33221100 0x77665544 0 -> 0x55667700",
        "prmt.b32.ecl  0x33221100 0x77665544 2 -> 0x33222222",
        "prmt.b32.rc16  0x33221100 0x77665544 1 -> 0x33223322",
    ],
)
def prmt_mode(e: Builder, a: Val, b: Val, c: Val, *, mode: str) -> Val:
    table, constant = _SELECTORS[mode], const_int(c)
    if constant is not None:
        return _shuffled(e, a, b, table[constant & 3])
    odd = (c & 1).ne(0)
    low, high = (odd.select(e.like(c, table[i + 1]), table[i]) for i in (0, 2))
    return _permute(e, a, b, (c & 2).ne(0).select(high, low))
