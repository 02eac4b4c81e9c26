"""What inputs are filled with: random numbers, and the values that kernels stumble over."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from weft.measure.dtypes import Array, DType

Random = np.random.Generator
Filling = Callable[[Random, tuple[int, ...], DType], Array]


def random(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """Normal numbers; integers over a small range, so that sums stay exact."""
    if dtype.floating:
        return dtype.encode(rng.standard_normal(shape))
    if dtype.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    low = -100 if dtype.name.startswith("i") else 0
    return rng.integers(low, 100, shape).astype(dtype.numpy)


def _constant(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    return dtype.encode(np.full(shape, 1.5 if dtype.floating else 3))


def _zeros(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    if not dtype.floating:
        return np.zeros(shape, dtype.numpy)
    return dtype.encode(np.where(rng.integers(0, 2, shape) == 0, 0.0, -0.0))


def _huge(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """So large that squares are finite and exponentials are not."""
    size = 2.0 ** (np.log2(dtype.largest) / 3) if dtype.floating else 0.0
    if not dtype.floating:
        return random(rng, shape, dtype)
    return dtype.encode(rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape) * size)


def _tiny(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    if not dtype.floating:
        return random(rng, shape, dtype)
    return dtype.encode(rng.uniform(-1, 1, shape) * dtype.normal)


def _with(value: float) -> Filling:
    def fill(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
        out = random(rng, shape, dtype)
        if dtype.floating and out.size:
            out.reshape(-1)[int(rng.integers(out.size))] = dtype.encode(np.array(value))
        return out

    return fill


SPECIALS: Mapping[str, Filling] = {
    "constant": _constant,
    "zeros": _zeros,
    "huge": _huge,
    "denormals": _tiny,
    "one inf": _with(np.inf),
    "one nan": _with(np.nan),
}
"""Each is given to every floating input at once; indices and the like keep their own data."""


def poison(shape: tuple[int, ...], dtype: DType, which: int) -> Array:
    """What outputs hold before a run: a NaN that no kernel computes, or odd bytes; two kinds."""
    size = dtype.numpy.itemsize
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.name == "bool":
        return np.full(shape, bool(which))
    if not dtype.floating:
        return np.full(count * size, 0xC3 + 16 * which, np.uint8).view(dtype.numpy).reshape(shape)
    high = {2: 0x7E00, 4: 0x7FC0_0000, 8: 0x7FF8_0000_0000_0000}[size]
    if dtype.name == "bf16":
        high = 0x7FC0
    bits = high | (0x15 + 8 * which)
    word = np.dtype(f"uint{8 * size}")
    return np.full(count, bits, word).view(dtype.numpy).reshape(shape)
