"""Operands to judge an instruction by: the edges of its types crossed, then random ones.

Everything is drawn by a hash of (signature, place), never by a library's generator, so that a
recording made elsewhere is replayed with the same operands whatever the versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from weft.ptx.model import SIZES

COUNT = 1 << 17
"""Operand tuples a form."""
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52)}
"""Exponent and mantissa bits."""
PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
U64 = np.uint64


def width(kind: str) -> int:
    """Bits of the register that an operand of a type is read from."""
    return 1 if kind == "pred" else max(8 * SIZES[kind], 16) if kind[1:] != "8" else 32


def draw(seed: int, n: int) -> np.ndarray:
    """n random 64-bit words (splitmix64 of a counter)."""
    z = np.arange(n, dtype=U64) + U64((seed * 0x9E3779B97F4A7C15) & (2**64 - 1))
    z = z * U64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    return z ^ (z >> U64(31))


def edges(kind: str) -> np.ndarray:
    """The values of a type at which implementations go wrong."""
    if kind == "pred":
        return np.array([0, 1], U64)
    if kind in PACKED:
        half = edges(PACKED[kind])
        other = np.roll(half, 7)
        return np.concatenate([half | other << U64(16), other | half << U64(16)])
    found = _float_edges(*FLOATS[kind]) if kind in FLOATS else _integer_edges(8 * SIZES[kind])
    return np.array(sorted(found), U64)


def _integer_edges(bits: int) -> set[int]:
    mask = (1 << bits) - 1
    near = {0, 1, 2, 3, 5, 7, 10, 24, 31, 32, 33, 63, 64, 65, 100, 255, 256, 0x5555555555555555}
    near |= {(1 << k) + d for k in range(3, bits, 4) for d in (-1, 0, 1)}
    near |= {(1 << bits - 1) + d for d in (-2, -1, 0, 1)}
    return {x & mask for x in near} | {-x & mask for x in near}


def _float_edges(exponent: int, mantissa: int) -> set[int]:
    one, top = ((1 << exponent - 1) - 1) << mantissa, ((1 << exponent) - 1) << mantissa
    least = 1 << mantissa
    near = {0, 1, 2, least >> 1, least - 1, least, least + 1, 2 * least, 3 * least + 1}
    near |= {one - 1, one, one + 1, one - least, one + least, one + 3 * least // 2}
    near |= {
        top - 2,
        top - 1,
        top - least,
        top,
        top + 1,
        top + (least >> 1),
        top + (least >> 1) + 5,
        top + least - 1,
    }
    bias = (1 << exponent - 1) - 1
    for power in (8, 11, 15, 16, 24, 31, 32, 52, 63, 64, -1, -2, -12, -24):
        if 0 < bias + power < (1 << exponent) - 1:
            field = bias + power << mantissa
            near |= {field - 1, field, field + 1, field + (least >> 1)}
    sign = 1 << exponent + mantissa
    return near | {x | sign for x in near}


@lru_cache(maxsize=24)
def columns(kinds: tuple[str, ...], count: int = COUNT) -> tuple[np.ndarray, ...]:
    """One array of bit patterns (uint64) an operand: edges, random bits, numbers, neighbours."""
    seed = zlib.crc32(",".join(kinds).encode())
    crossed = _crossed(kinds, seed, count // 2)
    rest = count - len(crossed[0])
    cut = (rest // 3, rest // 3, rest - 2 * (rest // 3))
    out: list[np.ndarray] = []
    for j, kind in enumerate(kinds):
        words = draw(seed + 101 * j + 1, rest)
        raw, usual, close = np.split(words, np.cumsum(cut)[:-1])
        if j and kinds[0] == kind:  # neighbours of the first operand, for cancellation and ties
            start = out[0][len(crossed[0]) + cut[0] + cut[1] :]
            flips = draw(seed + 101 * j + 2, cut[2])
            close = start ^ (close & flips & U64(7)) ^ (flips >> U64(63)) << U64(width(kind) - 1)
        else:
            close = _usual(kind, close)
        parts = [crossed[j], raw, _usual(kind, usual), close]
        out.append(np.concatenate(parts) & U64((1 << width(kind)) - 1))
    return tuple(out)


def _crossed(kinds: Sequence[str], seed: int, most: int) -> list[np.ndarray]:
    """Every edge with every edge where that fits, else as many random pairings."""
    if len(kinds) == 1 and width(kinds[0]) == 16:
        return [np.arange(1 << 16, dtype=U64)]  # all there are
    lists = [edges(kind) for kind in kinds]
    if np.prod([float(len(x)) for x in lists]) <= most:
        grids = np.meshgrid(*lists, indexing="ij")
        return [g.ravel() for g in grids]
    return [
        x[(draw(seed + 77 * j, most) % U64(len(x))).astype(np.int64)] for j, x in enumerate(lists)
    ]


def _usual(kind: str, words: np.ndarray) -> np.ndarray:
    """Numbers of everyday size: floats near one, integers of any length, of either sign."""
    if kind in PACKED:
        low, high = _usual(PACKED[kind], words), _usual(PACKED[kind], words >> U64(32))
        return low & U64(0xFFFF) | (high & U64(0xFFFF)) << U64(16)
    if kind in FLOATS:
        exponent, mantissa = FLOATS[kind]
        spread = U64(15 if exponent > 5 else 7)
        field = (words >> U64(59) & spread) + U64((1 << exponent - 1) - 1 - int(spread) // 2)
        body = words & U64((1 << mantissa) - 1) | field << U64(mantissa)
        return body | (words >> U64(58) & U64(1)) << U64(exponent + mantissa)
    length = words >> U64(58)
    small = (words & U64((1 << 58) - 1)) >> length % U64(58)
    return np.where(words >> U64(57) & U64(1), U64(0) - small, small)
