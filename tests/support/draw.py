"""Random tensors with the same bits on every CPU.

The values of `torch.randn` depend on the vector units of the CPU, so a test that draws its inputs
with it can pass on one machine and fail on another. These tensors come from the raw integers of
PCG64 by exact operations: integer sums, and products with powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

_UNIFORMS = 12
"""A sum of 12 uniform numbers has variance 1 and nearly the normal distribution."""


class Draw:
    """A stream of random tensors; every call continues it."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def normal(self, *shape: Any, dtype: Any = torch.float32) -> Any:
        """Draw from the normal distribution, up to six standard deviations from 0."""
        count, size = _size(shape)
        sums = self._words(_UNIFORMS * count).reshape(count, _UNIFORMS).sum(1, dtype=np.int64)
        values = (sums - (_UNIFORMS << 31)) * 2.0**-32
        return _tensor(values, size, dtype)

    def uniform(self, *shape: Any, dtype: Any = torch.float32) -> Any:
        """Draw uniformly from [0, 1) in steps of 2**-24."""
        count, size = _size(shape)
        return _tensor((self._words(count) >> 8) * 2.0**-24, size, dtype)

    def integers(self, low: int, high: int, shape: Sequence[int], dtype: Any = torch.int64) -> Any:
        """Draw integers from `low` to `high`, which is left out."""
        count, size = _size((shape,))
        scaled = self._words(count).astype(np.int64) * (high - low) >> 32
        return _tensor(scaled + low, size, dtype)

    def permutation(self, n: int) -> Any:
        """Draw an order of the integers below `n`."""
        keys = self._words(2 * n).view(np.uint64)
        return torch.from_numpy(np.argsort(keys, kind="stable"))

    def _words(self, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        raw = np.asarray(self._bits.random_raw((count + 1) // 2), np.uint64)
        return raw.astype("<u8").view("<u4")[:count]


def seeded(seed: int) -> Draw:
    """Start a stream."""
    return Draw(seed)


def _size(shape: tuple[Any, ...]) -> tuple[int, tuple[int, ...]]:
    """The number of elements, and the shape given as integers or as one sequence."""
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    return math.prod(size), size


def _tensor(values: Any, size: tuple[int, ...], dtype: torch.dtype) -> Any:
    return torch.from_numpy(values.reshape(size)).to(dtype)
