"""One output of a tensor-core step in integers of Python: slow, and written to be plainly right."""

from __future__ import annotations

import functools
from collections.abc import Sequence

FIELDS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23)}
"""Exponent and mantissa bits."""
FLOOR = {"f32": -133, "f16": -21}
"""The least exponent that terms are aligned to, by accumulator."""
KEPT = 25
"""Bits below the largest exponent that a term keeps."""
_remembered = functools.lru_cache(1 << 14)
"""A number is an operand of a whole row or column of outputs."""


@_remembered
def unpacked(x: int, kind: str) -> tuple[int, int]:
    """A finite number as (signed significand, exponent of its last bit)."""
    e, m = FIELDS[kind]
    x >>= 13 if kind == "tf32" else 0
    field, frac = x >> m & (1 << e) - 1, x & (1 << m) - 1
    sig = frac | (1 << m) if field else frac
    return (-sig if x >> (e + m) & 1 else sig), max(field, 1) - (1 << e - 1) + 1 - m


def step(a: Sequence[int], b: Sequence[int], c: int, kind: str, acc: str) -> int:
    """The bits of c plus all products; operands are bit patterns."""
    special = _special(a, b, c, kind, acc)
    if special is not None:
        return special
    e, m = FIELDS[acc]
    (sc, ec), mant = unpacked(c, acc), FIELDS[kind][1]
    terms = [(sc, ec, ec + m)]  # value, exponent of its last bit, exponent it counts with
    for x, y in zip(a, b, strict=True):
        (sx, ex), (sy, ey) = unpacked(x, kind), unpacked(y, kind)
        terms.append((sx * sy, ex + ey, ex + ey + 2 * mant))
    top = max([t[2] for t in terms if t[0]] + [FLOOR[acc]])
    total = 0
    for value, last, _ in terms:
        shift = last - (top - KEPT)
        size = abs(value) << shift if shift >= 0 else abs(value) >> -shift
        total += size if value >= 0 else -size
    if total == 0:
        return 0
    bias, size = (1 << e - 1) - 1, abs(total)
    exponent = max(size.bit_length() - 1 + top - KEPT, 1 - bias)
    down = exponent - m - (top - KEPT)
    q = size >> down if down >= 0 else size << -down
    if acc == "f16" and down > 0:
        rest, half = size - (q << down), 1 << down - 1
        q += rest > half or (rest == half and q & 1)
    bits = (exponent + bias - 1 << m) + q if q >> m else q
    bits = min(bits, (1 << e) - 1 << m)
    return bits | (total < 0) << (e + m) if bits else 0


def _special(a: Sequence[int], b: Sequence[int], c: int, kind: str, acc: str) -> int | None:
    """The NaN or infinity that the terms make; None if all are finite."""
    e, m = FIELDS[acc]
    signs = {_infinity(c, acc)} - {0}
    nan = _is_nan(c, acc)
    for x, y in zip(a, b, strict=True):
        nan |= _is_nan(x, kind) or _is_nan(y, kind)
        if _infinity(x, kind) or _infinity(y, kind):
            zero = not (unpacked(x, kind)[0] and unpacked(y, kind)[0])
            nan |= zero
            signs.add(1 if (unpacked(x, kind)[0] > 0) == (unpacked(y, kind)[0] > 0) else -1)
    if nan or len(signs) == 2:
        return (1 << e + m) - 1
    if not signs:
        return None
    return (signs.pop() < 0) << (e + m) | (1 << e) - 1 << m


@_remembered
def _infinity(x: int, kind: str) -> int:
    """1 or -1 for an infinity, else 0."""
    field, frac, negative = _split(x, kind)
    return (-1 if negative else 1) if field and not frac else 0


@_remembered
def _is_nan(x: int, kind: str) -> bool:
    field, frac, _ = _split(x, kind)
    return bool(field and frac)


def _split(x: int, kind: str) -> tuple[bool, int, int]:
    """(is the exponent field full, fraction, sign)."""
    e, m = FIELDS[kind]
    x >>= 13 if kind == "tf32" else 0
    return (x >> m & (1 << e) - 1) == (1 << e) - 1, x & (1 << m) - 1, x >> (e + m) & 1
