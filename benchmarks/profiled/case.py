"""A launch that both the simulator and ncu count, and the arrays that such launches are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A launch; `make` gives its arguments, the same ones each time.

    file     CUDA C++, or PTX
    name     what tables call it: the kernel by default
    cluster  blocks of a cluster, where the kernel has them
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    make: Callable[[], list[Any]]
    file: Path = HERE / "kernels.cu"
    shared: int = 0
    name: str = ""
    cluster: int | None = None

    @property
    def title(self) -> str:
        return self.name or self.kernel


@dataclass(frozen=True)
class Boxes:
    """An argument that is a tensor map of an array."""

    array: Array
    box: tuple[int, ...]
    swizzle: int = 0


def f32(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def ints(high: int, n: int, dtype: Any = np.int32) -> Array:
    return np.random.default_rng(2).integers(0, high, n).astype(dtype)
