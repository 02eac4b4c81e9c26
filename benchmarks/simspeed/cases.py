"""The cases: one row per kernel and size, with its arrays, its launches and its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Dim = tuple[int, ...]
Array = np.ndarray[Any, Any]
Call = Callable[..., None]
"""`call(grid, block, *args)`: one launch, by whichever contender."""


@dataclass(frozen=True)
class Problem:
    """Inputs made once; `run` launches, `output` is compared between contenders."""

    run: Callable[[Call], None]
    output: Array


@dataclass(frozen=True)
class Case:
    """A kernel at a size; `work` is what is counted in a second, in `unit`."""

    name: str
    kernel: str
    build: Callable[[], Problem]
    work: float
    unit: str
    twins: Sequence[str]
    tolerance: float = 0.0  # largest relative difference to the first twin; 0: the same bits
    fast: bool = False  # also timed with math="fast"

    @property
    def slow(self) -> bool:
        """Left out of a quick run: the same kernel is there at a smaller size."""
        return self.kernel.startswith("sgemm") and "1024" in self.name

    @property
    def large(self) -> bool:
        """True if two cores must be 1.7 times as fast as one: there is enough work to share."""
        return self.slow or self.kernel in ("softmax", "collatz", "hgemm")


def _random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def product(n: int, tile: Dim, block: Dim) -> Callable[[], Problem]:
    """C = A B of n x n floats, where a block makes a tile of C."""

    def build() -> Problem:
        a, b, c = _random(n, n), _random(n, n), np.zeros((n, n), np.float32)
        grid = (n // tile[0], n // tile[1])
        return Problem(lambda call: call(grid, block, a, b, c, n, n, n), c)

    return build


def _half_product(n: int) -> Callable[[], Problem]:
    def build() -> Problem:
        a, b = (_random(n, n).astype(np.float16) for _ in range(2))
        c = np.zeros((n, n), np.float32)
        return Problem(lambda call: call((n // 64, n // 64), (128,), a, b, c, n, n, n), c)

    return build


def _reduce(n: int) -> Callable[[], Problem]:
    def build() -> Problem:
        levels = [_random(n)]
        while levels[-1].size > 1:
            levels.append(np.zeros(-(-levels[-1].size // 512), np.float32))

        def run(call: Call) -> None:
            for x, y in pairwise(levels):
                call((y.size,), (256,), x, y, x.size)

        return Problem(run, levels[-1])

    return build


def _softmax(rows: int, cols: int) -> Callable[[], Problem]:
    def build() -> Problem:
        x, y = _random(rows, cols), np.zeros((rows, cols), np.float32)
        return Problem(lambda call: call((rows,), (256,), x, y, cols), y)

    return build


def _transpose(n: int) -> Callable[[], Problem]:
    def build() -> Problem:
        x, y = _random(n, n), np.zeros((n, n), np.float32)
        return Problem(lambda call: call((n // 32, n // 32), (32, 8), x, y, n, n), y)

    return build


def _collatz(n: int) -> Callable[[], Problem]:
    def build() -> Problem:
        steps = np.zeros(n, np.int32)
        return Problem(lambda call: call((-(-n // 256),), (256,), steps, n), steps)

    return build


_SGEMM: dict[str, tuple[Dim, Dim]] = {  # elements of C a block makes, its threads
    "sgemm_naive": ((32, 8), (32, 8)),
    "sgemm_tiled": ((16, 16), (16, 16)),
    "sgemm_blocked": ((128, 128), (256,)),
}

CASES = [
    # g++ on x86 does not fuse every product and sum as a GPU does
    *(
        Case(f"{k} {n}", k, product(n, *shape), 2.0 * n**3, "flop", [k], tolerance=1e-5)
        for k, shape in _SGEMM.items()
        for n in (512, 1024)
    ),
    Case("reduce 4M", "reduce", _reduce(1 << 22), 1 << 22, "element", ["reduce"]),
    # expf differs in its last bits between a GPU and the C library
    Case("softmax 4096x1000", "softmax", _softmax(4096, 1000), 4096e3, "element", ["softmax"],
         tolerance=1e-5),
    Case("transpose 2048", "transpose", _transpose(2048), 2048**2, "element", ["transpose"]),
    Case("collatz 1M", "collatz", _collatz(1_000_000), 131_434_424, "step", ["collatz"]),
    Case(
        "hgemm 1024", "hgemm", _half_product(1024), 2.0 * 1024**3, "flop",
        ["hgemm_exact", "hgemm"], fast=True,
    ),
]  # fmt: skip
