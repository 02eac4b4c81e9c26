"""Everyday Numba kernels, timed: an unedited Numba script, run by Numba's simulator and by weft.

    NUMBA_ENABLE_CUDASIM=1 python benchmarks/frontends/numba_cases.py [NAME...]
    weft run benchmarks/frontends/numba_cases.py [NAME...]

Prints a JSON line a case: processor seconds of a launch, and how far its result is from NumPy's in
float64.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from timing import timed

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
import numba_kernels as kernels

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") != "1"


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


def _softmax(x: Any, y: Any) -> Any:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _mandelbrot(out: Any) -> Any:
    i, j = np.mgrid[: out.shape[0], : out.shape[1]]
    c = (j * 3.0 / out.shape[1] - 2).astype(np.float32) + 1j * (i * 2.0 / out.shape[0] - 1).astype(
        np.float32
    )
    z, n = np.zeros(c.shape, complex), np.zeros(c.shape)
    for _ in range(50):
        inside = np.abs(z) < 2
        z[inside] = z[inside] ** 2 + c[inside]
        n += inside
    return n


class Case(NamedTuple):
    """A launch; the last argument is what it computes, `reference` what that should be."""

    size: str
    kernel: Any
    grid: Any
    block: Any
    args: Callable[[], list[Any]]
    reference: Callable[..., Any]


TILE = kernels.TILE
N, TILES = 64, (4, 4)
CASES = {
    "matmul": Case(
        "64 x 64",
        kernels.matmul_naive,
        TILES,
        (TILE, TILE),
        lambda: [_random(N, N), _random(N, N), _zeros(N, N)],
        lambda a, b, c: a.astype(np.float64) @ b,
    ),
    "matmul with tiles": Case(
        "64 x 64",
        kernels.matmul_tiled,
        TILES,
        (TILE, TILE),
        lambda: [_random(N, N), _random(N, N), _zeros(N, N)],
        lambda a, b, c: a.astype(np.float64) @ b,
    ),
    "saxpy": Case(
        "16,384",
        kernels.saxpy,
        64,
        256,
        lambda: [np.float32(2), _random(1 << 14), np.ones(1 << 14, np.float32)],
        lambda a, x, y: 2 * x.astype(np.float64) + 1,
    ),
    "sum": Case(
        "4,096",
        kernels.total,
        16,
        256,
        lambda: [_random(4096), _zeros(1)],
        lambda x, out: [x.sum(dtype=np.float64)],
    ),
    "softmax": Case(
        "8 x 1,000",
        kernels.softmax_scan,
        8,
        128,
        lambda: [_random(8, 1000), _zeros(8, 1000)],
        _softmax,
    ),
    "transpose": Case(
        "64 x 64",
        kernels.transpose_square,
        TILES,
        (TILE, TILE),
        lambda: [_random(N, N), _zeros(N, N)],
        lambda x, y: x.T,
    ),
    "histogram": Case(
        "4,096",
        kernels.histogram,
        16,
        256,
        lambda: [np.arange(4096, dtype=np.int32) ** 2 % 61, _zeros(64, dtype=np.int32)],
        lambda x, counts: np.bincount(x, minlength=64),
    ),
    "Mandelbrot set": Case(
        "64 x 64",
        kernels.mandelbrot,
        TILES,
        (TILE, TILE),
        lambda: [_zeros(N, N, dtype=np.int32)],
        _mandelbrot,
    ),
}


def measure(name: str) -> dict[str, Any]:
    """One case, timed and compared; kernels that add to their output have done so but once."""
    case = CASES[name]
    launch, again, args = case.kernel[case.grid, case.block], case.args(), case.args()
    times = timed(lambda: launch(*again), simulated=SIMULATED)
    launch(*args)
    expected = np.asarray(case.reference(*case.args()), np.float64)
    error = float(np.abs(args[-1] - expected).max() / max(np.abs(expected).max(), 1e-30))
    return {"case": name, "size": case.size, **times, "errors": [error]}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        print(json.dumps(measure(chosen)), flush=True)
