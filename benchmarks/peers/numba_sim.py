"""The kernels in numba's CUDA simulator, at sizes it can do.

Run with NUMBA_ENABLE_CUDASIM=1; prints work and processor seconds as JSON. The simulator has no
shuffles, so softmax sums through shared memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from work import COLLATZ_STEPS, seconds

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
import numba_kernels as kernels

TILE = kernels.TILE


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _product(kernel: Any, n: int) -> float:
    a, b, c = _random(n, n), _random(n, n), np.zeros((n, n), np.float32)
    blocks = n // TILE
    took = seconds(lambda: kernel[(blocks, blocks), (TILE, TILE)](a, b, c))
    assert np.allclose(c, a @ b, atol=1e-3)
    return took


def _reduce(n: int) -> float:
    x, out = _random(n), np.zeros(n // 512, np.float32)
    took = seconds(lambda: kernels.partial_sums[n // 512, 256](x, out))
    assert np.isclose(out.sum(), x.sum(), atol=1e-2)
    return took


def _softmax(rows: int, cols: int) -> float:
    x, y = _random(rows, cols), np.zeros((rows, cols), np.float32)
    took = seconds(lambda: kernels.softmax_tree[rows, 256](x, y, cols))
    assert np.allclose(y.sum(1), 1.0, atol=1e-4)
    return took


def _transpose(n: int) -> float:
    x, y = _random(n, n), np.zeros((n, n), np.float32)
    took = seconds(lambda: kernels.transpose_strips[(n // 32, n // 32), (32, 8)](x, y))
    assert np.array_equal(x.T, y)
    return took


def _collatz(n: int) -> float:
    steps = np.zeros(n, np.int32)
    took = seconds(lambda: kernels.collatz[-(-n // 256), 256](steps, n))
    assert steps[26] == 111
    return took


RUNS: dict[str, tuple[float, Callable[[], float]]] = {
    "sgemm_naive": (2.0 * 32**3, lambda: _product(kernels.matmul_naive, 32)),
    "sgemm_tiled": (2.0 * 32**3, lambda: _product(kernels.matmul_tiled, 32)),
    "reduce": (2048, lambda: _reduce(2048)),
    "softmax": (2000, lambda: _softmax(2, 1000)),
    "transpose": (64**2, lambda: _transpose(64)),
    "collatz": (COLLATZ_STEPS, lambda: _collatz(512)),
}

if __name__ == "__main__":
    cases = {name: {"work": work, "seconds": run()} for name, (work, run) in RUNS.items()}
    print(json.dumps({"version": version("numba-cuda"), "cases": cases}))
