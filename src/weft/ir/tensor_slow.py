"""The tensor-core step one output at a time: for sums at the ends of f32.

Rare, so it is written for little code: scalar integers, two loops over k for every output.
"""

from __future__ import annotations

from weft.ir.builder import Builder, Val
from weft.ir.tensor_format import FORMATS, Format
from weft.ir.tensor_operand import TensorStep, element, picked
from weft.records import dataclass

_NONE = -100_000
"""An exponent below all others."""


@dataclass(frozen=True)
class _Number:
    """One operand split into sign (i1), significand (i64), exponent (i32), and its class."""

    negative: Val
    significand: Val
    exponent: Val
    zero: Val
    inf: Val
    nan: Val


def call_slow(b: Builder, step: TensorStep, floor: int, *fragments: Val) -> None:
    """Call the function that does the whole tile, on the pointers of the common path."""
    fn = b.helper(
        step.name + ".slow",
        [("ptr", 0)] * len(fragments),
        None,
        lambda inner, ps: _tile(inner, step, floor, *ps),
        attrs="#2",
    )
    fn(*fragments)


def _tile(
    b: Builder,
    step: TensorStep,
    floor: int,
    a: Val,
    bt: Val,
    c: Val,
    d: Val,
    picks: Val | None = None,
) -> None:
    acc, factors = FORMATS[step.accumulator], _Factors(step, a, bt, picks)
    with b.loop(step.rows) as m, b.loop(8) as n:
        place = _place(step, m, n)
        addend = _unpack(b, b.load(acc.container, 0, b.at(c, place)), acc)
        b.store(_output(b, step, floor, factors, addend, m, n), b.at(d, place))


def _place(step: TensorStep, m: Val, n: Val) -> Val:
    """Byte offset of an accumulator element in its fragment."""
    if step.accumulator == "f16":
        return (m * 16 + n * 2).zext("i64")
    return ((m + (m & 8)) * 16 + (n & 1) * 128 + (n >> 1) * 4).zext("i64")


def _output(
    b: Builder, step: TensorStep, floor: int, factors: _Factors, addend: _Number, m: Val, n: Val
) -> Val:
    acc, mantissas = FORMATS[step.accumulator], step.format.mantissa + step.format_of_b.mantissa
    top, total, flags = b.alloca("i32"), b.alloca("i64"), b.alloca("i32")
    none = b.integer("i32", _NONE)
    b.store(b.smax(addend.zero.select(none, addend.exponent), floor), top)
    b.store(_flags(b, addend.nan, addend.inf, addend.negative), flags)
    with b.loop(step.depth) as k:
        x, y = factors.load(b, m, n, k)
        e = (x.zero | y.zero).select(none, x.exponent + y.exponent)
        b.store(b.smax(b.load("i32", 0, top), e), top)
        nan = x.nan | y.nan | (x.inf & y.zero) | (x.zero & y.inf)
        seen = _flags(b, nan, x.inf | y.inf, x.negative ^ y.negative)
        b.store(b.load("i32", 0, flags) | seen, flags)
    # The largest exponent decides where every term is cut, so the operands are read twice.
    high = b.load("i32", 0, top)
    b.store(_align(b, addend, high - addend.exponent - (step.fraction - acc.mantissa)), total)
    with b.loop(step.depth) as k:
        x, y = factors.load(b, m, n, k)
        product = _Number(
            x.negative ^ y.negative, x.significand * y.significand, x.exponent + y.exponent,
            x.zero, x.inf, x.nan,
        )  # fmt: skip
        cut = _align(b, product, high - product.exponent - (step.fraction - mantissas))
        b.store(b.load("i64", 0, total) + cut, total)
    kept = step.out_mantissa if step.accumulator == "f32" else acc.mantissa
    result = _pack(b, b.load("i64", 0, total), high - step.fraction, acc, kept)
    return _special(b, b.load("i32", 0, flags), result, acc)


@dataclass(frozen=True)
class _Factors:
    """The locations of the factors of a product."""

    step: TensorStep
    a: Val
    bt: Val
    picks: Val | None

    def load(self, b: Builder, m: Val, n: Val, k: Val) -> tuple[_Number, _Number]:
        """The two factors of product k of an output."""
        met = k if self.picks is None else picked(b, self.picks, k, m)
        x = element(b, self.step, self.a, self.step.rows, m, k)
        y = element(b, self.step, self.bt, 8, n, met)
        return _unpack(b, x, self.step.format), _unpack(b, y, self.step.format_of_b)


def _unpack(b: Builder, bits: Val, fmt: Format) -> _Number:
    x = b.resize(bits, "i32") >> fmt.unused
    m = fmt.mantissa
    mag = x & ((1 << (fmt.exponent + m)) - 1)
    field, frac = mag >> m, mag & ((1 << m) - 1)
    sig = field.eq(0).select(frac, frac | (1 << m)).zext("i64")
    never = b.integer("i1", 0)
    nan = mag.uge(fmt.special) if fmt.only_nan else mag.ugt(fmt.special)
    inf = never if fmt.only_nan else mag.eq(fmt.special)
    negative = (x >> (fmt.exponent + m)).trunc("i1")
    return _Number(negative, sig, b.umax(field, 1) - fmt.bias, mag.eq(0), inf, nan)


def _align(b: Builder, v: _Number, down: Val) -> Val:
    """The significand times 2^-down, cut toward zero, with its sign."""
    # A shift by 64 or more is poison in LLVM; by 63 nothing is left of a significand.
    right = v.significand >> b.smin(b.smax(down, 0), 63).zext("i64")
    left = v.significand << b.smin(b.smax(0 - down, 0), 40).zext("i64")
    size = down.sge(0).select(right, left)
    return v.negative.select(0 - size, size)


def _pack(b: Builder, total: Val, unit: Val, acc: Format, kept: int) -> Val:
    """total * 2^unit with `kept` mantissa bits: cut for f32, to nearest even for f16."""
    size = b.intrinsic("abs", [total], extra="false")
    msb = 63 - b.intrinsic("ctlz", [size], extra="false").trunc("i32")
    e = b.smax(msb + unit, 1 - acc.bias)
    down = e - kept - unit
    right = b.smin(b.smax(down, 0), 62).zext("i64")
    q = down.sge(0).select(size >> right, size << b.smin(b.smax(0 - down, 0), 62).zext("i64"))
    if acc.name == "f16":
        rest = size - (q << right)
        half = b.integer("i64", 1) << b.smax(right - 1, 0)
        up = rest.ugt(half) | (rest.eq(half) & (q & 1).ne(0))
        q = q + (up & down.sgt(0)).zext("i64")
    # The leading bit of q adds one to the exponent field; a subnormal has none.
    field = (e + (acc.bias - 1)).zext("i64") << kept
    bits = q.uge(1 << kept).select(field + q, q)
    inf = ((1 << acc.exponent) - 1) << kept
    bits = b.umin(bits, inf) << (acc.mantissa - kept)
    signed = bits | (total.slt(0).zext("i64") << (acc.bits - 1))
    # A sum of zero is +0 on an H200, whatever the signs of its terms.
    return bits.eq(0).select(bits, signed).trunc(acc.container)


_PLUS, _MINUS, _NAN = 1, 2, 4


def _flags(b: Builder, nan: Val, inf: Val, negative: Val) -> Val:
    sign = negative.select(b.integer("i32", _MINUS), _PLUS)
    return nan.select(b.integer("i32", _NAN), inf.select(sign, 0))


def _special(b: Builder, flags: Val, finite: Val, acc: Format) -> Val:
    """NaN before infinity before the finite result; both infinities are a NaN."""
    inf = b.integer(acc.container, acc.special)
    minus = b.integer(acc.container, acc.special | (1 << (acc.bits - 1)))
    nan = b.integer(acc.container, (1 << (acc.bits - 1)) - 1)
    infinite = flags.eq(_PLUS).select(inf, flags.eq(_MINUS).select(minus, nan))
    return flags.eq(0).select(finite, infinite)
