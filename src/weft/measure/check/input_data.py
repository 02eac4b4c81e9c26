"""What inputs are filled with: random numbers, and the values that kernels stumble over."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from weft.measure.dtypes import Array, DType

Random = np.random.Generator
Bounds = tuple[float, float]
Filling = Callable[[Random, tuple[int, ...], DType, Bounds | None], Array]
"""(generator, shape, type, bounds of the values or None) -> an array's bits."""


def random(
    rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None
) -> Array:
    """Normal numbers; integers of every size, with the edges of the type among them."""
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
    """A third is uniform, a third uniform in its number of bits, the rest edges of the type.

    Uniform numbers alone are nearly all large: what breaks for small ones would not show.
    """
    low, high = _ends(dtype, bounds)
    wide = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
    if bounds is not None:  # most often indices: every value is as good as another
        return np.asarray(wide)
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
    """Values around which narrower types, signs and sums go wrong, inside of the bounds."""
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
    return dtype.encode(np.where(rng.integers(0, 2, shape) == 0, 0.0, -0.0))


def _huge(rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> Array:
    """So large that squares are finite and exponentials are not."""
    size = 2.0 ** (np.log2(dtype.largest) / 3)
    return dtype.encode(rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape) * size)


def _tiny(rng: Random, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> Array:
    return dtype.encode(rng.uniform(-1, 1, shape) * dtype.normal)


def _with(value: float) -> Filling:
    """Random data with one element of this value; of integers it is the largest or smallest."""

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
            out = _small(rng, shape, dtype, bounds)
            out.reshape(-1)[at] = high if value > 0 else low
        return out

    return fill


def _special(floating: Filling, integers: Filling) -> Filling:
    """Floats and integers have their own; floats that a signature bounds keep to its bounds."""

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
"""Each is given to every input at once; inputs with a `fill` of their own keep it."""


def signs(rng: Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """1 and -1, which every floating type holds exactly, as it does their short sums."""
    return dtype.encode(rng.choice([-1.0, 1.0], shape))


# ---- what outputs hold before a run ----------------------------------------------------------
def poisons(rng: Random, shape: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """Two starts of an output that differ in every element, unlike those of any other call.

    The first of a floating output are NaNs with random payloads, which no kernel computes; the
    second are plain numbers, so that no kernel can tell from its output that it is judged.
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
    payload = bits & mantissa & ~(mantissa ^ (mantissa >> word.type(1)))
    sign = bits & word.type(1 << (8 * word.itemsize - 1))
    nans = (quiet | payload | sign).astype(word).view(dtype.numpy)
    return nans, dtype.encode(rng.standard_normal(shape))
