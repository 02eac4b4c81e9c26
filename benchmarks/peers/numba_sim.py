"""The kernels in numba's CUDA simulator, at sizes it can do.

Run with NUMBA_ENABLE_CUDASIM=1; prints work and processor seconds as JSON. The simulator has no
shuffles, so softmax sums through shared memory.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def sgemm_naive(A: Any, B: Any, C: Any, n: int) -> None:
    col, row = cuda.grid(2)
    if row < n and col < n:
        total = float32(0)
        for k in range(n):
            total += A[row, k] * B[k, col]
        C[row, col] = total


@cuda.jit
def sgemm_tiled(A: Any, B: Any, C: Any, n: int) -> None:
    a = cuda.shared.array((TILE, TILE), float32)
    b = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for k0 in range(0, n, TILE):
        a[ty, tx] = A[row, k0 + tx]
        b[ty, tx] = B[k0 + ty, col]
        cuda.syncthreads()
        for k in range(TILE):
            total += a[ty, k] * b[k, tx]
        cuda.syncthreads()
    C[row, col] = total


@cuda.jit
def reduce(x: Any, partial: Any) -> None:
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 512 + t
    s[t] = x[i] + x[i + 256]
    half = 128
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]


@cuda.jit
def softmax(x: Any, y: Any, n: int) -> None:
    s = cuda.shared.array(256, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    m = float32(-1e30)
    for i in range(t, n, 256):
        m = max(m, x[row, i])
    s[t] = m
    half = 128
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] = max(s[t], s[t + half])
        half //= 2
    cuda.syncthreads()
    m = s[0]
    cuda.syncthreads()
    total = float32(0)
    for i in range(t, n, 256):
        total += math.exp(x[row, i] - m)
    s[t] = total
    half = 128
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    cuda.syncthreads()
    for i in range(t, n, 256):
        y[row, i] = math.exp(x[row, i] - m) / s[0]


@cuda.jit
def transpose(x: Any, y: Any) -> None:
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for r in range(0, 32, 8):
        tile[ty + r, tx] = x[cuda.blockIdx.y * 32 + ty + r, cuda.blockIdx.x * 32 + tx]
    cuda.syncthreads()
    for r in range(0, 32, 8):
        y[cuda.blockIdx.x * 32 + ty + r, cuda.blockIdx.y * 32 + tx] = tile[tx, ty + r]


@cuda.jit
def collatz(steps: Any, n: int) -> None:
    i = cuda.grid(1)
    if i < n:
        v = i + 1
        count = 0
        while v != 1:
            v = 3 * v + 1 if v % 2 else v // 2
            count += 1
        steps[i] = count


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _product(kernel: Any, n: int) -> float:
    a, b, c = _random(n, n), _random(n, n), np.zeros((n, n), np.float32)
    blocks = n // TILE
    took = _time(lambda: kernel[(blocks, blocks), (TILE, TILE)](a, b, c, n))
    assert np.allclose(c, a @ b, atol=1e-3)
    return took


def _reduce(n: int) -> float:
    x, out = _random(n), np.zeros(n // 512, np.float32)
    took = _time(lambda: reduce[n // 512, 256](x, out))
    assert np.isclose(out.sum(), x.sum(), atol=1e-2)
    return took


def _softmax(rows: int, cols: int) -> float:
    x, y = _random(rows, cols), np.zeros((rows, cols), np.float32)
    took = _time(lambda: softmax[rows, 256](x, y, cols))
    assert np.allclose(y.sum(1), 1.0, atol=1e-4)
    return took


def _transpose(n: int) -> float:
    x, y = _random(n, n), np.zeros((n, n), np.float32)
    took = _time(lambda: transpose[(n // 32, n // 32), (32, 8)](x, y))
    assert np.array_equal(x.T, y)
    return took


def _collatz(n: int) -> float:
    steps = np.zeros(n, np.int32)
    took = _time(lambda: collatz[-(-n // 256), 256](steps, n))
    assert steps[26] == 111
    return took


def _time(run: Callable[[], Any]) -> float:
    """Processor seconds, the median of three; the first run is not counted."""
    run()
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sorted(times)[1]


STEPS = 26_915  # of the Collatz loop from all of 1 to 512

RUNS: dict[str, tuple[float, Callable[[], float]]] = {
    "sgemm_naive": (2.0 * 32**3, lambda: _product(sgemm_naive, 32)),
    "sgemm_tiled": (2.0 * 32**3, lambda: _product(sgemm_tiled, 32)),
    "reduce": (2048, lambda: _reduce(2048)),
    "softmax": (2000, lambda: _softmax(2, 1000)),
    "transpose": (64**2, lambda: _transpose(64)),
    "collatz": (STEPS, lambda: _collatz(512)),
}

if __name__ == "__main__":
    cases = {name: {"work": work, "seconds": run()} for name, (work, run) in RUNS.items()}
    print(json.dumps({"version": version("numba-cuda"), "cases": cases}))
