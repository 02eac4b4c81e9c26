"""Element types: storage, rounding and range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import ArgumentError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DType:
    """One element type.

    storage   NumPy's type that holds its bits (bfloat16 has none of its own: uint16)
    roundoff  unit roundoff: half the distance from 1 to the next value; 0 for exact types
    largest   the largest finite value
    normal    the smallest normal value; kernels may flush smaller values to zero
    """

    name: str
    storage: str
    torch: str
    roundoff: float = 0.0
    largest: float = 0.0
    normal: float = 0.0

    @property
    def floating(self) -> bool:
        return self.roundoff > 0

    @property
    def integer(self) -> bool:
        """True for integer types, whose results are exact and wrap around; False for bool."""
        return not self.floating and self.name != "bool"

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer of an integer type."""
        limits = np.iinfo(self.numpy)
        return int(limits.min), int(limits.max)

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.storage)

    def encode(self, values: Array) -> Array:
        """Convert numbers to the stored form, rounded to nearest even."""
        if self.name != "bf16":
            with np.errstate(all="ignore"):
                return np.asarray(values).astype(self.numpy)
        # NumPy has no bfloat16. Adding 0x7FFF plus the lowest kept bit rounds the upper half of the
        # float32 to nearest even; a NaN could carry into the exponent, so it is replaced.
        wide = np.array(values, np.float32, order="C").view(np.uint32)
        nan = np.isnan(np.asarray(values, np.float32))
        rounded = (wide + np.uint32(0x7FFF) + ((wide >> 16) & 1)) >> 16
        return np.where(nan, np.uint32(0x7FC0), rounded).astype(np.uint16)

    def decode(self, stored: Array) -> Array:
        """Convert the stored form to numbers: float64 for floating types, else unchanged."""
        if not self.floating:
            return stored
        if self.name == "bf16":
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(invalid="ignore"):  # an output may hold a signalling NaN
            return stored.astype(np.float64)

    def ulps(self, got: float, expected: float) -> float:
        """The distance of two numbers in ULPs of this type at the expected value."""
        if not (np.isfinite(got) and np.isfinite(expected)):
            return float("inf")
        # Below the smallest normal value the spacing is constant.
        size = max(abs(expected), self.normal)
        unit = 2.0 ** np.floor(np.log2(size)) * 2 * self.roundoff
        return float(abs(got - expected) / unit)


Random = np.random.Generator
Bounds = tuple[float, float]
Filling = Callable[[Random, tuple[int, ...], DType, Bounds | None], Array]
"""(generator, shape, type, bounds of the values or None) -> stored bits."""


_TYPES = (
    DType("f64", "float64", "float64", 2.0**-53, float(np.finfo(np.float64).max), 2.0**-1022),
    DType("f32", "float32", "float32", 2.0**-24, float(np.finfo(np.float32).max), 2.0**-126),
    DType("f16", "float16", "float16", 2.0**-11, 65504.0, 2.0**-14),
    DType("bf16", "uint16", "bfloat16", 2.0**-8, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
    *(DType(f"{k[0]}{n}", f"{k}{n}", f"{k}{n}") for k in ("int", "uint") for n in (8, 16, 32, 64)),
    DType("bool", "bool", "bool"),
)
_BY_NAME = {t.name: t for t in _TYPES}
_SPELLINGS = (
    {t.torch: t for t in _TYPES}
    | {"half": _BY_NAME["f16"], "float": _BY_NAME["f32"], "double": _BY_NAME["f64"]}
    | _BY_NAME
)


def find(name: str) -> DType:
    """An element type by any of its names: f32, float32, float."""
    key = name.removeprefix("torch.")
    if key in _SPELLINGS:
        return _SPELLINGS[key]
    raise ArgumentError(
        f"no element type '{name}'", got=name, allowed=", ".join(t.name for t in _TYPES)
    )
