"""Float formats in Python integers: the plain definition that the rows must agree with.

A finite number is (sign, mantissa, exponent) with the value (-1)^sign * mantissa * 2^exponent.
"""

from __future__ import annotations

import functools

WIDTHS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
MODES = ("rn", "rz", "rm", "rp")
Number = tuple[int, int, int]


@functools.cache
def infinity(kind: str) -> int:
    exponent, mantissa = WIDTHS[kind]
    return ((1 << exponent) - 1) << mantissa


@functools.cache
def canonical(kind: str) -> int:
    return (1 << sum(WIDTHS[kind])) - 1


def sign_of(bits: int, kind: str) -> int:
    return bits >> sum(WIDTHS[kind])


def magnitude(bits: int, kind: str) -> int:
    return bits & canonical(kind)


def is_nan(bits: int, kind: str) -> bool:
    return magnitude(bits, kind) > infinity(kind)


def is_inf(bits: int, kind: str) -> bool:
    return magnitude(bits, kind) == infinity(kind)


def unpack(bits: int, kind: str) -> Number:
    """A finite number."""
    exponent, mantissa = WIDTHS[kind]
    field = magnitude(bits, kind) >> mantissa
    low = bits & ((1 << mantissa) - 1)
    bias = (1 << (exponent - 1)) - 1
    whole = low | (1 << mantissa if field else 0)
    return sign_of(bits, kind), whole, (field or 1) - bias - mantissa


def shift_right(m: int, n: int, sign: int, mode: str) -> int:
    """m / 2^n as an integer, rounded."""
    if n <= 0:
        return m << -n
    q, rest, half = m >> n, m & ((1 << n) - 1), 1 << (n - 1)
    if mode == "rn":
        return q + (rest > half or (rest == half and q & 1 == 1))
    return q + (rest > 0 and mode == ("rm" if sign else "rp"))


def pack(number: Number, kind: str, mode: str = "rn") -> int:
    """The bits of a number, rounded once."""
    sign, m, e = number
    exponent, mantissa = WIDTHS[kind]
    top = sign << (exponent + mantissa)
    least = 2 - (1 << (exponent - 1))
    place = max(m.bit_length() - 1 + e, least)
    q = shift_right(m, place - mantissa - e, sign, mode)
    bits = ((place - least) << mantissa) + q if m else 0
    if bits >= infinity(kind):
        outward = mode == "rn" or mode == ("rm" if sign else "rp")
        bits = infinity(kind) - (not outward)
    return top | bits


def add(x: Number, y: Number) -> Number:
    """The exact sum; the sign of a zero as rounding to nearest has it."""
    e = min(x[2], y[2])
    v = sum((1 - 2 * s) * m << (f - e) for s, m, f in (x, y))
    return (int(v < 0) if v else x[0] & y[0]), abs(v), e


def fma(a: int, b: int, c: int, kind: str) -> int:
    """a * b + c on bits, rounded to nearest, with the one NaN of 16- and 32-bit formats."""
    sign = sign_of(a, kind) ^ sign_of(b, kind)
    infinite = is_inf(a, kind) or is_inf(b, kind)
    zero = not magnitude(a, kind) or not magnitude(b, kind)
    clash = infinite and is_inf(c, kind) and sign != sign_of(c, kind)
    if any(is_nan(v, kind) for v in (a, b, c)) or (infinite and zero) or clash:
        return canonical(kind)
    if infinite:
        return sign << sum(WIDTHS[kind]) | infinity(kind)
    if is_inf(c, kind):
        return c
    (_, ma, ea), (_, mb, eb) = unpack(a, kind), unpack(b, kind)
    return pack(add((sign, ma * mb, ea + eb), unpack(c, kind)), kind)


def convert(bits: int, source: str, dest: str, mode: str = "rn") -> int:
    """Float to float, for numbers and infinities."""
    if is_inf(bits, source):
        return sign_of(bits, source) << sum(WIDTHS[dest]) | infinity(dest)
    return pack(unpack(bits, source), dest, mode)


def limits(width: int, signed: bool) -> tuple[int, int]:
    """The least and the largest integer."""
    return -(1 << (width - 1)) if signed else 0, (1 << (width - signed)) - 1


def to_int(bits: int, source: str, mode: str, width: int, signed: bool) -> int:
    """Float to integer with saturation, for numbers and infinities."""
    least, most = limits(width, signed)
    sign = sign_of(bits, source)
    if is_inf(bits, source):
        return (least if sign else most) & ((1 << width) - 1)
    _, m, e = unpack(bits, source)
    q = shift_right(m, -e, sign, mode[:2])
    return min(max(-q if sign else q, least), most) & ((1 << width) - 1)


def from_int(bits: int, width: int, signed: bool, dest: str, mode: str) -> int:
    """Integer to float."""
    value = bits - (1 << width) if signed and bits >> (width - 1) else bits
    return pack((int(value < 0), abs(value), 0), dest, mode)
