"""Generates input data: random numbers and special values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.measure.dtypes import Array, Bounds, DType, Filling, Random


def random(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    """Normally distributed floats; integers of all magnitudes, including limits of the type."""
    if dtype.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.integer:
        return _integers(rng, shape, dtype, bounds)
    if bounds is not None:
        return dtype.encode(rng.uniform(*bounds, shape))
    return dtype.encode(rng.standard_normal(shape))


# ---- integers --------------------------------------------------------------------------------
def _integers(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    """One third is uniform, one third uniform in the number of bits, one third edge values.

    Nearly all uniform numbers are large, so they alone would not reveal bugs with small numbers.
    """
    low, high = _ends(dtype, bounds)
    wide = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
    if bounds is not None:  # usually indices: uniform values are best
        return np.asarray(wide)
    # A random right shift makes all magnitudes equally likely.
    shift = rng.integers(0, 8 * dtype.numpy.itemsize, shape, np.uint8).astype(dtype.numpy)
    kind = rng.integers(0, 3, shape)
    return np.asarray(
        np.where(kind == 0, wide, np.where(kind == 1, wide >> shift, _edges(rng, shape, dtype)))
    )


def _ends(dtype: DType, bounds: Bounds | None) -> tuple[int, int]:
    least, most = dtype.range
    return (least, most) if bounds is None else (int(bounds[0]), int(bounds[1]))


def _edges(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    """Values near powers of two, where narrow types, signs and sums overflow, within the bounds."""
    low, high = _ends(dtype, bounds)
    powers = [1 << bits for bits in (0, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64)]
    near = {sign * p + step for p in powers for sign in (1, -1) for step in (-1, 0, 1)}
    values = sorted(v for v in near | {low, high} if low <= v <= high)
    return np.asarray(rng.choice(np.array(values, dtype.numpy), shape))


def _small(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    low, high = _ends(dtype, bounds)
    first = min(max(low, -2), high)
    return np.asarray(rng.integers(first, min(high, first + 4), shape, dtype.numpy, endpoint=True))


def _same(value: int, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None) -> Array:
    low, high = (0, 1) if dtype.name == "bool" else _ends(dtype, bounds)
    return np.full(shape, min(max(value, low), high), dtype.numpy)


# ---- special values --------------------------------------------------------------------------
def _constant(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    return dtype.encode(np.full(shape, 1.5)) if dtype.floating else _same(3, shape, dtype, bounds)


def _zeros(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    if not dtype.floating:
        return _same(0, shape, dtype, bounds)
    # Both signs: max, division and printing treat -0.0 differently.
    return dtype.encode(np.where(rng.integers(0, 2, shape) == 0, 0.0, -0.0))


def _huge(rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> Array:
    """Values whose squares are finite and whose exponentials overflow."""
    # The cube root of the largest value.
    size = 2.0 ** (np.log2(dtype.largest) / 3)
    return dtype.encode(rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape) * size)


def _tiny(rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> Array:
    return dtype.encode(rng.uniform(-1, 1, shape) * dtype.normal)


def _with(value: float) -> Filling:
    """Random data with one element of this value; for integers the type's maximum or minimum."""

    def fill(
        rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
    ) -> Array:
        out = random(rng, shape, dtype, bounds)
        if not out.size:
            return out
        at = int(rng.integers(out.size))
        if dtype.floating:
            out.reshape(-1)[at] = dtype.encode(np.array(value))
        elif dtype.integer:
            low, high = _ends(dtype, bounds)
            # Among small values the extreme one is certain to affect sums and maxima.
            out = _small(rng, shape, dtype, bounds)
            out.reshape(-1)[at] = high if value > 0 else low
        return out

    return fill


def _special(floating: Filling, integers: Filling) -> Filling:
    """Combine a filling for floats with one for integers. Bounded floats stay random."""

    def fill(
        rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
    ) -> Array:
        if dtype.floating and bounds is None:
            return floating(rng, shape, dtype, None)
        plain = random if dtype.floating or dtype.name == "bool" else integers
        return plain(rng, shape, dtype, bounds)

    return fill


SPECIALS: Mapping[str, Filling] = {
    "constant": _special(_constant, _constant),
    "zeros": _special(_zeros, _zeros),
    "huge": _special(_huge, _edges),
    "denormals": _special(_tiny, _small),
    "one inf": _special(_with(np.inf), _with(np.inf)),
    "one nan": _special(_with(np.nan), _with(np.nan)),
}
"""Special fillings by name. Each fills all inputs, except those with a `fill` of their own."""


def signs(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """Random 1 and -1. All floating types hold these and their short sums exactly."""
    return dtype.encode(rng.choice([-1.0, 1.0], shape))


# ---- what outputs hold before a run ----------------------------------------------------------
def poisons(rng: Random, shape: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """Two initial contents of an output that differ in every element and in every call.

    The first for floating types consists of NaNs with random payloads, which no kernel computes.
    The second consists of plain numbers, so that a kernel cannot detect the check.
    """
    if dtype.name == "bool":
        first = rng.integers(0, 2, shape).astype(bool)
        return first, ~first
    word = np.dtype(f"uint{8 * dtype.numpy.itemsize}")
    bits = rng.integers(1, np.iinfo(word).max, shape, word)
    if not dtype.floating:
        return bits.view(dtype.numpy), (~bits).view(dtype.numpy)
    quiet = dtype.encode(np.full(shape, np.nan)).view(word)
    mantissa = word.type(2 ** round(-np.log2(dtype.roundoff) - 1) - 1)
    # Keep the quiet bit, the highest of the mantissa: it is set already and must not change.
    payload = bits & mantissa & ~(mantissa ^ (mantissa >> word.type(1)))
    sign = bits & word.type(1 << (8 * word.itemsize - 1))
    nans = (quiet | payload | sign).astype(word).view(dtype.numpy)
    return nans, dtype.encode(rng.standard_normal(shape))
