"""The approximate functions, bit for bit: tables of quadratic pieces summed in fixed point and cut.

    S = C0[row] + C1[row] * xl + C2[row] * square(xl)        integers, unit 2^-40

A lane's three coefficients lie in one 64-bit word, so that it costs one load:
bits 15..0 hold |C2|, 34..16 |C1|, from 35 on C0 >> 14 (what is below is one constant a function).
The words of ex2, the most frequent one by far, are arranged for sums of 32 bits.
Every function takes and gives the bit patterns of f32 (`i32`), or the high words of f64.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

from weft.ir.builder import Builder, Val
from weft.ir.flush import from_bits, rarely, raw_bits
from weft.ir.value import Operandish
from weft.records import dataclass

_TABLES = Path(__file__).with_name("mufu_tables.json")
_STRIP = 16  # lanes at a time: with more, spills cost what constants save
_SIGN, _MAGNITUDE, _EXPONENT = 0x80000000, 0x7FFFFFFF, 0x7F800000
_INF, _NAN, _ONE, _LEAST = 0x7F800000, 0x7FFFFFFF, 0x3F800000, 0x00800000
_INF64 = 0x7FF00000  # of the high word

# tanh: per binade from 2^-8, the mantissa bits that are ignored and the binade's first row
_TANH_SHIFT = (6, 6, 6, 5, 5, 4, 4, 4, 3, 2, 3)
_TANH_FIRST = (0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43)

Body = Callable[[Builder, Val], Val]


@dataclass(frozen=True)
class CoefficientTable:
    """Rows of one function packed for one load, and what is common to all of them."""

    name: str
    words: tuple[int, ...]
    c0_bits: int
    c0_low: int
    signs: tuple[int, int]
    shifts: tuple[int, int]


@cache
def _coefficients() -> dict[str, list[tuple[int, int, int]]]:
    tables: dict[str, list[tuple[int, int, int]]] = json.loads(_TABLES.read_text("utf-8"))
    return tables


def _zeros(values: list[int]) -> int:
    """Low zero bits that all values share."""
    every = 0
    for v in values:
        every |= abs(v)
    return (every & -every).bit_length() - 1


@cache
def _table(name: str) -> CoefficientTable:
    """Root tables are indexed by the field's low bit too, so odd exponents come first."""
    coefficients = _coefficients()
    rows = (
        coefficients[name]
        if name in coefficients
        else coefficients[name + "1"] + coefficients[name + "0"]
    )
    order, extra = list(range(len(rows))), [0] * len(rows)
    if name == "tanh":  # 16 entries a binade, each with the number of ignored bits on top
        order = [f + (i >> (s - 2)) for f, s in zip(_TANH_FIRST, _TANH_SHIFT, strict=True)
                 for i in range(16)]  # fmt: skip
        extra = [s << 61 for s in _TANH_SHIFT for _ in range(16)]
    j1, j2 = _zeros([r[1] for r in rows]), _zeros([r[2] for r in rows])
    words = [
        rows[i][0] >> 14 << 35 | abs(rows[i][1]) >> j1 << 16 | abs(rows[i][2]) >> j2 | top
        for i, top in zip(order, extra, strict=True)
    ]
    c1, c2 = rows[-1][1:]
    bits = 26 if name == "tanh" else 27
    signs = (1 if c1 > 0 else -1, 1 if c2 > 0 else -1)
    return CoefficientTable(name, tuple(words), bits, rows[0][0] & 0x3FFF, signs, (j1, j2))


def _row(b: Builder, table: CoefficientTable, index: Val) -> Val:
    """The packed words at `index` (i32)."""
    base = b.table(f"mufu.table.{table.name}", "i64", table.words)
    offset = index << 3
    if index.lanes == 0:
        return b.load("i64", 0, b.at(base, offset.zext("i64")), 8)
    offsets = (b.extract(offset, lane).zext("i64") for lane in range(index.lanes))
    return _gather(b, [b.at(base, x) for x in offsets])


def _gather(b: Builder, places: list[Val]) -> Val:
    """The 64-bit words at these places."""
    row = b.poison("double", len(places))  # in vector registers from the start
    for lane, place in enumerate(places):
        row = b.insert(row, b.load("double", 0, place, 8), lane)
    return b.cast("bitcast", row, "i64")


def _square(w: Val) -> Val:
    """The 17-bit squarer in units of 2^19 (i16), whose partial products below 2^19 are left out.

    With w the 15 bits that count (i16), u and v its top 7 and next 2 bits, the high part is
    u * (2u + v); each of the 6 low bits adds the high bits whose product with it is heavy enough.
    """
    u = w >> 8
    # What the low bits add fits bytes, of which a vector has twice as many.
    low, high = w.trunc("i8"), (w >> 9).trunc("i8")
    part = (low & 1).ne(0).sext("i8") & (high >> 5)
    for k in range(1, 6):
        part = part + ((low & (1 << k)).ne(0).sext("i8") & (high >> (5 - k)))
    return u * ((u << 1) + ((w >> 6) & 3)) + part.zext("i16")


def _sum(table: CoefficientTable, row: Val, xl: Val) -> Val:
    """S as i64."""
    (s1, s2), (j1, j2) = table.signs, table.shifts
    c0 = (row >> 21) & (((1 << table.c0_bits) - 1) << 14)
    c1 = (row >> 16).trunc("i32") & 0x7FFFF
    first = c1.zext("i64") * (xl << j1).zext("i64")
    second = (row.trunc("i16").zext("i32") * _square((xl >> 2).trunc("i16")).zext("i32")).zext(
        "i64"
    ) << j2
    partial = c0 + first if s1 > 0 else c0 - first
    return (partial + second if s2 > 0 else partial - second) + table.c0_low


@cache
def _ex2_words() -> tuple[int, ...]:
    """C0 >> 14 of ex2 in the low half, C1 >> 2 and C2 >> 2 in the high one."""
    return tuple(c1 >> 2 << 48 | c2 >> 2 << 32 | c0 >> 14 for c0, c1, c2 in _coefficients()["ex2"])


def _ex2_row(b: Builder, words: Val, n: Val) -> Val:
    """The address of the row of a fraction."""
    # By index, not by offset: to scale it is a part of the load on most CPUs.
    index = ((n >> 17) & 63).zext("i64")
    return b.pure("ptr", 0, f"getelementptr i64, {words.typed}, {index.typed}")


def _ex2_sum(b: Builder, n: Val, square: Val, row: Val) -> Val:
    """S >> 17 as i32, for the 23 bits of a fraction.

    C1 has 16 bits here, and both products are multiples of 4, so that 32 bits hold them: of
    C1 * xl + C2 * square the bit below the last one is cut first, which changes no sum.
    """
    if n.lanes:  # a shift by 32 would be done in 64 bits
        high = b.shuffle(b.view(row, "i32", 2 * n.lanes), range(1, 2 * n.lanes, 2))
    else:
        high = (row >> 32).trunc("i32")
    c1, c2 = high >> 16, high.trunc("i16").zext("i32")
    last = (n & 1).ne(0).sext("i32") & c1
    rest = last + c2 * square.zext("i32")
    # xl without its last bit
    whole = c1 * ((n >> 1) & 0xFFFF) + (rest >> 1) + (_table("ex2").c0_low >> 3)
    return (row.trunc("i32") + (whole >> 11)) >> 3


def _poly(b: Builder, name: str, index: Val, xl: Val) -> Val:
    table = _table(name)
    return _sum(table, _row(b, table, index), xl)


def _normal(b: Builder, s: Val, unit: int) -> Val:
    """s * 2^-unit (0 <= s < 2^52) as f32, cut to 24 bits; a double on the way is exact."""
    # 2^52: the integer goes into its mantissa, and subtracting 2^52 leaves the value. AVX2 has no
    # vector conversion of 64-bit integers.
    magic = 0x4330000000000000
    wide = b.cast("bitcast", s | magic, "double") - b.float_bits("double", magic)
    bits = (raw_bits(b, wide) >> 29).trunc("i32")
    offset = (1023 - 127 + unit) << 23
    return s.ne(0).select(bits - offset, 0)


def _fix(b: Builder, odd: Val, r: Val, fixes: Callable[[], Val]) -> Val:
    """Correct the results of special lanes, off the common path."""
    return rarely(b, b.any(odd), r, lambda: odd.select(fixes(), r))


def _pick(b: Builder, *cases: tuple[Val, Operandish], default: Operandish) -> Val:
    """The value of the first case that holds."""
    like = b.integer("i32", 0)
    out = b.like(like, default)
    for cond, value in reversed(cases):
        out = b.select(cond, b.like(like, value), out)
    return out


def _rcp(b: Builder, x: Val) -> Val:
    s = _poly(b, "rcp", (x >> 16) & 127, (x << 1) & 0x1FFFE)
    r = (252 << 23) - (x & _EXPONENT) + (s >> 16).trunc("i32")
    # The unit flushes subnormal results, as it flushes subnormal arguments; `isa.floating.approx`
    # scales around it where there is no `.ftz`.
    r = r.sge(_LEAST).select(r, 0) | (x & _SIGN)
    odd = ((x << 1) - (_LEAST << 1)).ugt(0xFE000000)  # zero, denormal, NaN
    small = (x & _EXPONENT).eq(0)
    return _fix(b, odd, r, lambda: _pick(b, (small, (x & _SIGN) | _INF), default=_NAN))


def _half_exponent(x: Val) -> Val:
    """(e + 1) >> 1 in the place of an f32 exponent field."""
    return ((x >> 1) + 0x400000) & _EXPONENT


def _not_positive(x: Val) -> Val:
    """Zero, denormal, negative, infinite, NaN."""
    return (x - _LEAST).uge(_INF - _LEAST)


def _special(b: Builder, x: Val, zero: Operandish, infinite: int) -> Val:
    """The result of a function of positive numbers for others: ±0 and denormals -> `zero`."""
    small, inf = (x & _EXPONENT).eq(0), x.eq(_INF)
    return _pick(b, (small, zero), (inf, infinite), default=_NAN)


def _rsqrt(b: Builder, x: Val) -> Val:
    s = _poly(b, "rsq", (x >> 17) & 127, x & 0x1FFFF)
    power = (x & 0xFFFFFF).eq(0x800000).zext("i32")  # 4^k: exact, where the table ends just below
    r = (189 << 23) - _half_exponent(x) + (s >> 16).trunc("i32") + power
    return _fix(b, _not_positive(x), r, lambda: _special(b, x, (x & _SIGN) | _INF, 0))


def _sqrt(b: Builder, x: Val) -> Val:
    s = _poly(b, "sqrt", (x >> 17) & 127, x & 0x1FFFF)
    r = _half_exponent(x) + (62 << 23) + (s >> 17).trunc("i32")
    return _fix(b, _not_positive(x), r, lambda: _special(b, x, x & _SIGN, _INF))


def _lg2(b: Builder, x: Val) -> Val:
    s = _poly(b, "lg2", (x >> 17) & 63, x & 0x1FFFF)
    v = (s >> 4) + ((x & _EXPONENT).zext("i64") << 13) - (127 << 36)
    below = v.ashr(63)  # the magnitude of a negative sum is its one's complement
    r = _normal(b, v ^ below, 36) | (below.trunc("i32") & _SIGN)
    r = x.ne(_ONE).select(r, 0)
    return _fix(b, _not_positive(x), r, lambda: _special(b, x, 0xFF800000, _INF))


def _ex2_fixed(b: Builder, x: Val) -> Val:
    """x with 23 bits of fraction, rounded toward zero, and one less below zero unless x is whole.

    From ±128 on the exponent field of the result becomes infinite, or below that of a normal
    number.
    """
    top, bottom = b.const("float", 128.0), b.const("float", -128.0)
    f = from_bits(b, x)
    f = b.select(b.fcmp("olt", f, top), f, top)
    f = b.select(b.fcmp("ogt", f, bottom), f, bottom) * b.const("float", 8388608.0)
    fixed = b.cast("fptosi", f, "i32")
    return fixed + ((fixed & 0x7FFFFF).ne(0).sext("i32") & fixed.ashr(31))


def _ex2_square(n: Val) -> Val:
    return _square((n >> 2).trunc("i16") & 0x7FFF)


def _ex2_result(b: Builder, n: Val, square: Val, row: Val) -> Val:
    r = (n & ~0x7FFFFF) + (126 << 23) + _ex2_sum(b, n, square, row)
    return r.sge(_LEAST).select(r, 0)


def _ex2_of_numbers(b: Builder, x: Val) -> Val:
    """ex2 of numbers: row indices go through memory, which is faster than lanes of a vector."""
    words = b.table("mufu.table.ex2", "i64", _ex2_words())
    if x.lanes == 0:
        n = _ex2_fixed(b, x)
        row = b.load("i64", 0, _ex2_row(b, words, n), 8)
        return _ex2_result(b, n, _ex2_square(n), row)
    fixed, results = (b.array("i32", x.lanes) for _ in range(2))
    b.store(_ex2_fixed(b, x), fixed, 64)
    strip = min(_STRIP, x.lanes)
    with b.loop(x.lanes // strip) as i:
        at = i.zext("i64") * (4 * strip)
        first = b.at(fixed, at)
        n = b.load("i32", strip, first, 32)
        square = _ex2_square(n)
        lanes = [b.load("i32", 0, b.at(first, 4 * lane), 4) for lane in range(strip)]
        row = _gather(b, [_ex2_row(b, words, v) for v in lanes])
        b.store(_ex2_result(b, n, square, row), b.at(results, at), 32)
    return b.load("i32", x.lanes, results, 64)


def _ex2(b: Builder, x: Val) -> Val:
    # A sum is a NaN where a term is one; where infinities meet, no lane is changed.
    r, total = _ex2_of_numbers(b, x), from_bits(b, x)
    while total.lanes > 4:
        half = total.lanes // 2
        total = b.shuffle(total, range(half)) + b.shuffle(total, range(half, 2 * half))

    def fix() -> Val:
        return b.fcmp("ord", from_bits(b, x), from_bits(b, x)).select(r, _NAN)

    return rarely(b, b.any(b.is_nan(total)), r, fix)


def _turn(b: Builder, x: Val) -> tuple[Val, Val]:
    """x / 2pi, cut to f32, as a fraction of a turn with 25 bits; and whether x is finite."""
    # 0x3E22F983 is the f32 nearest to 1 / 2pi.
    f, k = b.fabs(from_bits(b, x)), b.float_bits("float", 0x3E22F983)
    turns = f * k
    high = b.fcmp("olt", b.fma(f, k, -turns), b.const("float", 0.0))  # rounded up: one step down
    turns = from_bits(b, raw_bits(b, turns) + high.sext("i32"))
    part = turns - b.intrinsic("trunc", [turns])
    finite = b.fcmp("olt", part, b.const("float", 1.0))
    part = b.select(finite, part, b.const("float", 0.0)) * b.const("float", 33554432.0)
    return b.cast("fptosi", part, "i32"), finite


def _sine(b: Builder, x: Val, *, cosine: bool) -> Val:
    p, finite = _turn(b, x)
    odd = (p << 8).ashr(31)  # the quadrant's low bit in every bit
    t = (p ^ (~odd if cosine else odd)) & 0x7FFFFF
    r = _normal(b, _poly(b, "sin", t >> 17, t & 0x1FFFF), 40)
    sign = ((p << 7) ^ (odd if cosine else x)) & _SIGN
    return finite.select(r | sign, _NAN)


def _tanh(b: Builder, x: Val) -> Val:
    a, table = x & _MAGNITUDE, _table("tanh")
    row = _row(b, table, b.smin(b.smax((a >> 19) - (119 << 4), 0), 175))
    z = (a & 0x7FFFFF) >> (row >> 61).trunc("i32")
    r = _normal(b, _sum(table, row, z & 0x1FFFF), 40)
    r = _pick(b, (a.ult(0x3B800000), a), (a.uge(0x41000000), _ONE), default=r) | (x & _SIGN)
    return a.ule(_INF).select(r, _NAN)


def _rcp64(b: Builder, h: Val) -> Val:
    s = _poly(b, "rcp", (h >> 13) & 127, (h << 4) & 0x1FFF0)
    r = (2044 << 20) - (h & _INF64) + (s >> 19).trunc("i32")
    r = r.sge(1 << 20).select(r, 0)
    r = (h & _INF64).ne(0).select(r, _INF64) | (h & _SIGN)
    return (h & _MAGNITUDE).ule(_INF64).select(r, _NAN)


def _rsqrt64(b: Builder, h: Val) -> Val:
    s = _poly(b, "rsq", (h >> 14) & 127, (h << 3) & 0x1FFFF)
    power = (h & 0x1FFFFF).eq(0x100000).zext("i32")
    r = (1533 << 20) - (((h >> 1) + 0x80000) & _INF64) + (s >> 19).trunc("i32") + power
    small, inf = (h & _INF64).eq(0), h.eq(_INF64)
    r = _pick(b, (small, (h & _SIGN) | _INF64), (inf, 0), (h.slt(0), _NAN), default=r)
    return (h & _MAGNITUDE).ule(_INF64).select(r, _NAN)


_FUNCTIONS: dict[str, Body] = {
    "rcp": _rcp,
    "rsqrt": _rsqrt,
    "sqrt": _sqrt,
    "lg2": _lg2,
    "ex2": _ex2,
    "sin": lambda b, x: _sine(b, x, cosine=False),
    "cos": lambda b, x: _sine(b, x, cosine=True),
    "tanh": _tanh,
    "rcp64": _rcp64,
    "rsqrt64": _rsqrt64,
}


_OFTEN_ALIKE = {"rcp", "rsqrt", "sqrt"}
"""Functions that normalise a row: all lanes often have its sum, which no analysis detects."""


def mufu(b: Builder, name: str, x: Val) -> Val:
    """One machine instruction of the special function unit on f32 (or, `…64`, on i32 high words).

    sin and cos take radians: the multiplication that scales them to turns is part of them here.
    """

    def body(b: Builder, x: Val) -> Val:
        if x.lanes == 0 or name not in _OFTEN_ALIKE:
            return _strips(b, x, _FUNCTIONS[name])
        first = b.extract(x, 0)
        alike = b.same(raw_bits(b, x), b.splat(raw_bits(b, first), x.lanes))
        return b.either(
            alike,
            lambda: b.splat(mufu(b, name, first), x.lanes),
            lambda: _strips(b, x, _FUNCTIONS[name]),
        )

    return b.lanewise(f"mufu.{name}", [x], x.element, body)


def _strips(b: Builder, x: Val, body: Body) -> Val:
    bits, ty = raw_bits(b, x) if x.is_float else x, x.element
    if x.lanes == 0 or body is _ex2:  # which has strips of its own
        out = body(b, bits)
    else:
        source, target = b.array("i32", x.lanes), b.array("i32", x.lanes)
        b.store(bits, source, 64)
        strip = min(_STRIP, x.lanes)  # a block of few threads has fewer lanes
        with b.loop(x.lanes // strip) as i:
            offset = i.zext("i64") * (4 * strip)
            part = b.load("i32", strip, b.at(source, offset), 32)
            b.store(body(b, part), b.at(target, offset), 32)
        out = b.load("i32", x.lanes, target, 64)
    return b.reinterpret(out, ty)
