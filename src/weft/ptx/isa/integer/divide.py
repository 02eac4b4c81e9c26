"""Integer division and remainder, with the hardware's answers where C has none.

x / 0 and x rem 0 are all ones; INT_MIN / -1 is INT_MIN and its remainder 0.

Vector units divide floats, not integers. A quotient of n-bit integers, n well below the
significand's width, is never rounded across an integer, so 16 bits go through f32 and 32 bits
through f64. With one divisor for all lanes a product with its reciprocal is enough: half a unit
added to the dividend keeps the quotient further from every integer than the rounding error.
64-bit numbers that fit 32 bits in all lanes take that road too.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import Builder, Val
from weft.ptx.isa.columns import InstructionWork, ResultForm
from weft.ptx.isa.constant import const_int
from weft.ptx.isa.registry import instruction

_INTS = "u16 u32 u64 s16 s32 s64"
_FLOAT = {"i16": ("float", 23), "i32": ("double", 52)}


# ---- quotients of vectors; the divisor is not zero ---------------------------------------------
def _to_float(e: Builder, v: Val, signed: bool) -> Val:
    return e.cast("sitofp" if signed else "uitofp", v, _FLOAT[v.element][0])


def _cut(e: Builder, q: Val, ty: str) -> Val:
    """A float cut toward zero: once 1.5 * 2^significand is added, its low bits are the integer."""
    kind, significand = _FLOAT[ty]
    shifted = e.intrinsic("trunc", [q]) + e.const(kind, 1.5 * 2**significand)
    return e.cast("bitcast", shifted, f"i{shifted.bits}").trunc(ty)


def _float_quotient(e: Builder, a: Val, b: Val, signed: bool) -> Val:
    fraction = e.binary("fdiv", _to_float(e, a, signed), _to_float(e, b, signed))
    return _cut(e, fraction, a.element)


def _reciprocal_quotient(e: Builder, a: Val, inverse: Val, signed: bool) -> Val:
    x = _to_float(e, a, signed)
    half = e.const(x.element, 0.5)
    half = e.intrinsic("copysign", [half, x]) if signed else half
    return _cut(e, (x + half) * inverse, a.element)


def _long_quotient(e: Builder, a: Val, b: Val, signed: bool) -> Val:
    def narrow() -> Val:
        # Here every lane of both is below 2^32 and not negative: one unsigned quotient serves both
        # signs.
        return _float_quotient(e, a.trunc("i32"), b.trunc("i32"), False).zext("i64")

    return e.either(e.any(((a | b) >> 32).ne(0)), lambda: _plain_quotient(e, a, b, signed), narrow)


def _plain_quotient(e: Builder, a: Val, b: Val, signed: bool) -> Val:
    """Through the IR's own division, away from the one quotient that it leaves undefined."""
    if not signed:
        return e.binary("udiv", a, b)
    minus = b.eq(-1)
    return minus.select(-a, e.binary("sdiv", a, minus.select(e.like(b, 1), b)))


# ---- the roads ---------------------------------------------------------------------------------
def _quotient(e: Builder, a: Val, b: Val, signed: bool) -> Val:
    """a / b by the cheapest road; b is not zero."""
    # A processor divides scalar integers in hardware; only vectors need the way through floats.
    if max(a.lanes, b.lanes) == 0:
        return _plain_quotient(e, a, b, signed)
    kind = f"{'s' if signed else 'u'}{a.bits}"
    if a.element in _FLOAT and b.lanes == 0:
        one = e.const(_FLOAT[a.element][0], 1.0)
        inverse = e.binary("fdiv", one, _to_float(e, b, signed))
        call = e.helper(
            f"div.by.{kind}.{a.lanes}",
            [(a.element, a.lanes), (inverse.element, 0)],
            (a.element, a.lanes),
            lambda inner, ps: _reciprocal_quotient(inner, ps[0], ps[1], signed),
        )
        return call(a, inverse)
    road = _float_quotient if a.element in _FLOAT else _long_quotient
    return e.lanewise(f"div.{kind}", [a, b], a.element, _bind(road, signed))


def _bind(road: Callable[[Builder, Val, Val, bool], Val], signed: bool) -> Callable[..., Val]:
    return lambda e, a, b: road(e, a, b, signed)


def _constant(e: Builder, a: Val, divisor: int, signed: bool, rem: bool) -> Val:
    """By a known number: LLVM makes multiplications of the plain instruction."""
    if divisor == 0:
        return e.splat(e.like(a, -1), a.lanes)
    if signed and divisor == -1:
        return e.zero(a.element, a.lanes) if rem else -a
    op = ("s" if signed else "u") + ("rem" if rem else "div")
    return e.binary(op, a, e.like(a, divisor))


@instruction(
    "div.type  d, a, b",
    form=ResultForm.QUOTIENT,
    work=InstructionWork(expands={"s32": 18, "u32": 15, "s64": 80, "u64": 70}),
    manual="integer-arithmetic-instructions-div",
    type=_INTS,
    vectors=[
        "div.s32  -7 2 -> -3",
        "div.s32  0x80000000 -1 -> 0x80000000",
        "div.u32  7 0 -> 0xffffffff",
        "div.u64  0xffffffffffffffff 10 -> 1844674407370955161",
    ],
)
def div(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    signed, constant = type[0] == "s", const_int(b)
    if constant is not None:
        return _constant(e, a, constant, signed, rem=False)
    # A division by zero traps on x86, also in a lane whose result is discarded.
    zero = b.eq(0)
    return zero.select(e.like(a, -1), _quotient(e, a, zero.select(e.like(b, 1), b), signed))


@instruction(
    "rem.type  d, a, b",
    form=ResultForm.REMAINDER,
    work=InstructionWork(expands={"s32": 20, "u32": 17, "s64": 80, "u64": 70}),
    manual="integer-arithmetic-instructions-rem",
    type=_INTS,
    vectors=[
        "rem.s32  -7 2 -> -1",
        "rem.s32  0x80000000 -1 -> 0",
        "rem.u16  7 0 -> 65535",
        "rem.s64  0x123456789abcdef0 1000 -> 320",
    ],
)
def rem(e: Builder, a: Val, b: Val, *, type: str) -> Val:
    signed, constant = type[0] == "s", const_int(b)
    if constant is not None:
        return _constant(e, a, constant, signed, rem=True)
    zero = b.eq(0)
    divisor = zero.select(e.like(b, 1), b)
    return zero.select(e.like(a, -1), a - _quotient(e, a, divisor, signed) * divisor)
