"""Integer arithmetic: rows of the PTX manual's section 'Integer Arithmetic Instructions'.

Division and remainder are in divide.py, bit counting and fields in bits.py, carries in carry.py.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import BITS, Builder, Val
from weft.ptx.isa.columns import InstructionWork, ResultForm
from weft.ptx.isa.registry import instruction

_INTS = "u16 u32 u64 s16 s32 s64"
_SIGNED = "s16 s32 s64"


@instruction(
    "add.type  d, a, b",
    form=ResultForm.SUM,
    manual="integer-arithmetic-instructions-add",
    type=_INTS,
    vectors=["add.s32  2 3 -> 5", "add.u16  65535 1 -> 0"],
)
def add(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a + b


@instruction(
    "sub.type  d, a, b",
    form=ResultForm.DIFFERENCE,
    manual="integer-arithmetic-instructions-sub",
    type=_INTS,
    vectors=["sub.s32  2 3 -> -1", "sub.u64  0 1 -> 0xffffffffffffffff"],
)
def sub(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return a - b


@instruction(
    "add.sat.s32  d:s32, a:s32, b:s32",
    manual="integer-arithmetic-instructions-add",
    vectors=["add.sat.s32  0x7fffffff 1 -> 0x7fffffff", "add.sat.s32  0x80000000 -1 -> 0x80000000"],
)
def add_sat(e: Builder, a: Val, b: Val) -> Val:
    return e.intrinsic("sadd.sat", [a, b])


@instruction(
    "sub.sat.s32  d:s32, a:s32, b:s32",
    manual="integer-arithmetic-instructions-sub",
    vectors=["sub.sat.s32  0x80000000 1 -> 0x80000000", "sub.sat.s32  5 7 -> -2"],
)
def sub_sat(e: Builder, a: Val, b: Val) -> Val:
    return e.intrinsic("ssub.sat", [a, b])


# ---- products ----------------------------------------------------------------------------------
def wide_product(e: Builder, a: Val, b: Val, type: str) -> Val:
    """The whole product, twice as wide."""
    signed, double = type[0] == "s", f"i{2 * a.bits}"
    return e.resize(a, double, signed=signed) * e.resize(b, double, signed=signed)


def high_product(e: Builder, a: Val, b: Val, type: str) -> Val:
    """The upper half of the product."""

    def upper(e: Builder, a: Val, b: Val) -> Val:
        return (wide_product(e, a, b, type) >> a.bits).trunc(a.element)

    if a.bits < 64:
        return upper(e, a, b)
    # 32 lanes of 128-bit products become scalar code: once per module
    return e.lanewise(f"mulhi.{type}", [a, b], a.element, upper)


def low_product(e: Builder, a: Val, b: Val) -> Val:
    """The lower half of the product."""
    if a.is_const:
        a, b = b, a
    # Few hosts multiply vectors of 64 bits; the others do so lane by lane.
    digits = _digits(int(b.ref)) if b.is_const and a.lanes and a.bits == 64 else []
    if not 2 <= len(digits) <= 3:
        return a * b
    total = e.zero(a.element, a.lanes)
    for sign, place in digits:
        total = total + (a << place) if sign > 0 else total - (a << place)
        # The same value, of which LLVM does not know it: it would make a product of the sum.
        a = e.intrinsic("expect", [a, e.zero(a.element, a.lanes)])
    return total


def _digits(number: int) -> list[tuple[int, int]]:
    """64 bits as a sum of signed powers of two, as few as possible: (sign, exponent)."""
    out, place = [], 0
    number = (number + (1 << 63)) % (1 << 64) - (1 << 63)
    while number:
        if number & 1:
            sign = 2 - (number & 3)  # 1 where the next bit is 0, else -1
            out.append((sign, place))
            number -= sign
        number, place = number >> 1, place + 1
    return out


def product(e: Builder, a: Val, b: Val, mode: str, type: str) -> Val:
    return low_product(e, a, b) if mode == "lo" else high_product(e, a, b, type)


@instruction(
    "mul.lo.type  d, a, b",
    form=ResultForm.PRODUCT,
    manual="integer-arithmetic-instructions-mul",
    type=_INTS,
    vectors=["mul.lo.s32  -3 7 -> -21"],
)
def mul(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return low_product(e, a, b)


@instruction(
    "mul.hi.type  d, a, b",
    manual="integer-arithmetic-instructions-mul",
    type=_INTS,
    vectors=[
        "mul.hi.s32  -1 1 -> -1",
        "mul.hi.u32  0xffffffff 2 -> 1",
        "mul.hi.u64  0xffffffffffffffff 3 -> 2",
    ],
)
def mul_hi(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return high_product(e, a, b, type)


@instruction(
    "mul.wide.type  d:type*2, a, b",
    form=ResultForm.WIDE_PRODUCT,
    manual="integer-arithmetic-instructions-mul",
    type="u16 u32 s16 s32",
    vectors=["mul.wide.s32  -1 3 -> -3", "mul.wide.u16  65535 65535 -> 0xfffe0001"],
)
def mul_wide(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return wide_product(e, a, b, type)


@instruction(
    "mad.lo.type  d, a, b, c",
    form=ResultForm.PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual="integer-arithmetic-instructions-mad",
    type=_INTS,
    vectors=["mad.lo.s32  2 3 4 -> 10"],
)
def mad(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return low_product(e, a, b) + c


@instruction(
    "mad.hi.type  d, a, b, c",
    work=InstructionWork(operations=2),
    manual="integer-arithmetic-instructions-mad",
    type=_INTS,
    vectors=["mad.hi.u16  256 256 5 -> 6"],
)
def mad_hi(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return high_product(e, a, b, type) + c


@instruction(
    "mad.wide.type  d:type*2, a, b, c:type*2",
    form=ResultForm.WIDE_PRODUCT_SUM,
    work=InstructionWork(operations=2),
    manual="integer-arithmetic-instructions-mad",
    type="u16 u32 s16 s32",
    vectors=["mad.wide.s32  -1 3 5 -> 2", "mad.wide.u32  0xffffffff 1 1 -> 0x100000000"],
)
def mad_wide(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return wide_product(e, a, b, type) + c


@instruction(
    "mad.hi.sat.s32  d:s32, a:s32, b:s32, c:s32",
    work=InstructionWork(operations=2),
    manual="integer-arithmetic-instructions-mad",
    vectors=["mad.hi.sat.s32  0x7fffffff 0x7fffffff 0x7fffffff -> 0x7fffffff"],
)
def mad_hi_sat(e: Builder, a: Val, b: Val, c: Val) -> Val:
    return e.intrinsic("sadd.sat", [high_product(e, a, b, "s32"), c])


def _product24(e: Builder, a: Val, b: Val, mode: str, type: str) -> Val:
    """Low or high 32 of the 48 bits of a product of two 24-bit numbers."""
    if type == "s32":
        x, y = ((v << 8).ashr(8) for v in (a, b))
    else:
        x, y = (v & 0xFFFFFF for v in (a, b))
    return x * y if mode == "lo" else (wide_product(e, x, y, type) >> 16).trunc("i32")


@instruction(
    "mul24.mode.type  d, a, b",
    manual="integer-arithmetic-instructions-mul24",
    mode="lo hi",
    type="u32 s32",
    vectors=["mul24.lo.u32  0xff000003 5 -> 15", "mul24.hi.s32  0x800000 0x10000 -> 0xff800000"],
)
def mul24(e: Builder, a: Val, b: Val, *, mode: str, type: str) -> Val:
    return _product24(e, a, b, mode, type)


@instruction(
    "mad24.mode.type  d, a, b, c",
    work=InstructionWork(operations=2),
    manual="integer-arithmetic-instructions-mad24",
    mode="lo hi",
    type="u32 s32",
    vectors=["mad24.lo.s32  3 5 -1 -> 14", "mad24.hi.u32  0x10000 0x10000 1 -> 0x10001"],
)
def mad24(e: Builder, a: Val, b: Val, c: Val, *, mode: str, type: str) -> Val:
    return _product24(e, a, b, mode, type) + c


@instruction(
    "mad24.hi.sat.s32  d:s32, a:s32, b:s32, c:s32",
    work=InstructionWork(operations=2),
    manual="integer-arithmetic-instructions-mad24",
    vectors=["mad24.hi.sat.s32  0x7fffff 0x7fffff 0x7fffffff -> 0x7fffffff"],
)
def mad24_hi_sat(e: Builder, a: Val, b: Val, c: Val) -> Val:
    return e.intrinsic("sadd.sat", [_product24(e, a, b, "hi", "s32"), c])


# ---- order -------------------------------------------------------------------------------------
def extreme(e: Builder, op: str, a: Val, b: Val, type: str) -> Val:
    """`min` or `max` under the sign of `type`."""
    return e.intrinsic(("s" if type[0] == "s" else "u") + op, [a, b])


@instruction(
    "min.type  d, a, b",
    form=ResultForm.MINIMUM,
    manual="integer-arithmetic-instructions-min",
    type=_INTS,
    vectors=["min.s32  -1 1 -> -1", "min.u32  -1 1 -> 1"],
)
def minimum(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return extreme(e, "min", a, b, type)


@instruction(
    "max.type  d, a, b",
    form=ResultForm.MAXIMUM,
    manual="integer-arithmetic-instructions-max",
    type=_INTS,
    vectors=["max.s64  -1 1 -> 1", "max.u16  -1 1 -> 65535"],
)
def maximum(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    return extreme(e, "max", a, b, type)


def distance(e: Builder, a: Val, b: Val, type: str) -> Val:
    """|a - b|, modulo the width."""
    return extreme(e, "max", a, b, type) - extreme(e, "min", a, b, type)


@instruction(
    "sad.type  d, a, b, c",
    manual="integer-arithmetic-instructions-sad",
    type=_INTS,
    vectors=["sad.s32  -3 4 10 -> 17", "sad.u32  -3 4 0 -> 0xfffffff9"],
)
def sad(e: Builder, a: Val, b: Val, c: Val, *, type: str) -> Val:
    return c + distance(e, a, b, type)


@instruction(
    "abs.type  d, a",
    manual="integer-arithmetic-instructions-abs",
    type=_SIGNED,
    vectors=["abs.s32  -7 -> 7", "abs.s16  0x8000 -> 0x8000"],
)
def absolute(e: Builder, a: Val, *, type: str) -> Val:
    # With `false` the least integer stays as it is, as on the hardware; with `true` it is poison.
    return e.intrinsic("abs", [a], extra="false")


@instruction(
    "neg.type  d, a",
    form=ResultForm.NEGATION,
    manual="integer-arithmetic-instructions-neg",
    type=_SIGNED,
    vectors=["neg.s32  7 -> -7", "neg.s64  0x8000000000000000 -> 0x8000000000000000"],
)
def neg(e: Builder, a: Val, *, type: str) -> Val:
    return -a


# ---- dot products ------------------------------------------------------------------------------
def field(e: Builder, v: Val, index: int, width: int, signed: bool) -> Val:
    """Bits `index*width` and up of `v`, `width` of them, extended to v's type."""
    top = v << (BITS[v.element] - width * (index + 1))
    down = BITS[v.element] - width
    return top.ashr(down) if signed else top >> down


def _dot_body(a_type: str, b_type: str, a_width: int, b_first: int) -> Callable[..., Val]:
    """Sum of products of the fields of a with bytes `b_first` and up of b."""

    def body(e: Builder, a: Val, b: Val, c: Val) -> Val:
        for i in range(32 // a_width):
            x = field(e, a, i, a_width, a_type[0] == "s")
            c = c + x * field(e, b, b_first + i, 8, b_type[0] == "s")
        return c

    return body


@instruction(
    "dp4a.atype.btype  d:b32, a:b32, b:b32, c:b32",
    manual="integer-arithmetic-instructions-dp4a",
    atype="u32 s32",
    btype="u32 s32",
    vectors=[
        "dp4a.u32.u32  0x01020304 0x01010101 5 -> 15",
        "dp4a.s32.s32  0xffffffff 0x01010101 0 -> -4",
        "dp4a.u32.s32  0x000000ff 0x00000080 0 -> -32640",
    ],
)
def dp4a(e: Builder, a: Val, b: Val, c: Val, *, atype: str, btype: str) -> Val:
    return e.lanewise(f"dp4a.{atype}.{btype}", [a, b, c], "i32", _dot_body(atype, btype, 8, 0))


@instruction(
    "dp2a.mode.atype.btype  d:b32, a:b32, b:b32, c:b32",
    manual="integer-arithmetic-instructions-dp2a",
    mode="lo hi",
    atype="u32 s32",
    btype="u32 s32",
    vectors=[
        "dp2a.lo.u32.u32  0x00020003 0x99990405 1 -> 24",
        "dp2a.hi.s32.s32  0xffff0001 0x02010000 0 -> -1",
    ],
)
def dp2a(e: Builder, a: Val, b: Val, c: Val, *, mode: str, atype: str, btype: str) -> Val:
    first = 0 if mode == "lo" else 2
    return e.lanewise(
        f"dp2a.{mode}.{atype}.{btype}", [a, b, c], "i32", _dot_body(atype, btype, 16, first)
    )
