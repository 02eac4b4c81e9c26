"""Tensors and numbers of cuDNN's calls.

A tensor is passed as its address, its type, four sizes and four strides; sizes are in the order
N, C, H, W whatever the layout in memory is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.frontends.program.libraries.arrays import Array, memory

SUCCESS, BAD_PARAM = 0, 3
_TYPES = {0: np.float32, 1: np.float64, 2: np.float16}


class Numbers:
    """The numbers of a call, read in order."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._rest = iter(numbers)

    def take(self, count: int) -> list[int]:
        return [next(self._rest) for _ in range(count)]

    def one(self) -> int:
        return next(self._rest)

    def scale(self, like: Array) -> float:
        """A scaling factor: a double for doubles, else a float."""
        kind = np.dtype(np.float64 if like.dtype == np.float64 else np.float32)
        return float(memory(self.one(), kind, (1,), (1,))[0])

    def tensor(self) -> Array:
        address, kind, *rest = self.take(10)
        return memory(address, np.dtype(_TYPES[kind]), tuple(rest[:4]), tuple(rest[4:]))


def wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def store(to: Array, alpha: float, result: Array, beta: float) -> None:
    """Write alpha * result + beta * old values, which are not read if beta is 0."""
    to[...] = alpha * result + beta * wide(to) if beta else alpha * result
