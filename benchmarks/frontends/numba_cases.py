"""Everyday Numba kernels, timed: an unedited Numba script, run by Numba's simulator and by weft.

    NUMBA_ENABLE_CUDASIM=1 python benchmarks/frontends/numba_cases.py [NAME...]
    weft run benchmarks/frontends/numba_cases.py [NAME...]

Prints a JSON line a case: processor seconds of a launch, and how far its result is from NumPy's in
float64. What Numba's simulator does not have (warp shuffles, cooperative groups) is left out.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int32
from timing import timed

TILE, PADDED = 16, 17
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") != "1"


@cuda.jit
def matmul_naive(a, b, c):
    col, row = cuda.grid(2)
    if row < c.shape[0] and col < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total


@cuda.jit
def matmul_tiled(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for k0 in range(0, a.shape[1], TILE):
        sa[ty, tx] = a[row, k0 + tx]
        sb[ty, tx] = b[k0 + ty, col]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[row, col] = total


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def reduce(x, out):
    s = cuda.shared.array(256, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    half = 128
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit
def softmax(x, y):
    s = cuda.shared.array(128, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    top = float32(-1e30)
    for i in range(t, x.shape[1], 128):
        top = max(top, x[row, i])
    s[t] = top
    cuda.syncthreads()
    for i in range(128):
        top = max(top, s[i])
    cuda.syncthreads()
    total = float32(0)
    for i in range(t, x.shape[1], 128):
        total += math.exp(x[row, i] - top)
    s[t] = total
    cuda.syncthreads()
    total = float32(0)
    for i in range(128):
        total += s[i]
    for i in range(t, x.shape[1], 128):
        y[row, i] = math.exp(x[row, i] - top) / total


@cuda.jit
def transpose(x, y):
    tile = cuda.shared.array((TILE, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx]
    cuda.syncthreads()
    y[cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx] = tile[tx, ty]


@cuda.jit
def histogram(x, counts):
    mine = cuda.shared.array(64, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if t < 64:
        mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    if t < 64:
        cuda.atomic.add(counts, t, mine[t])


@cuda.jit
def mandelbrot(out):
    j, i = cuda.grid(2)
    cr, ci = float32(j * 3.0 / out.shape[1] - 2), float32(i * 2.0 / out.shape[0] - 1)
    zr, zi, n = float32(0), float32(0), 0
    while zr * zr + zi * zi < 4 and n < 50:
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
        n += 1
    out[i, j] = n


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


N, TILES = 64, (4, 4)
CASES = {
    "matmul": Case(
        "64 x 64",
        matmul_naive,
        TILES,
        (TILE, TILE),
        lambda: [_random(N, N), _random(N, N), _zeros(N, N)],
        lambda a, b, c: a.astype(np.float64) @ b,
    ),
    "matmul with tiles": Case(
        "64 x 64",
        matmul_tiled,
        TILES,
        (TILE, TILE),
        lambda: [_random(N, N), _random(N, N), _zeros(N, N)],
        lambda a, b, c: a.astype(np.float64) @ b,
    ),
    "saxpy": Case(
        "16,384",
        saxpy,
        64,
        256,
        lambda: [float32(2), _random(1 << 14), np.ones(1 << 14, np.float32)],
        lambda a, x, y: 2 * x.astype(np.float64) + 1,
    ),
    "sum": Case(
        "4,096",
        reduce,
        16,
        256,
        lambda: [_random(4096), _zeros(1)],
        lambda x, out: [x.sum(dtype=np.float64)],
    ),
    "softmax": Case(
        "8 x 1,000", softmax, 8, 128, lambda: [_random(8, 1000), _zeros(8, 1000)], _softmax
    ),
    "transpose": Case(
        "64 x 64",
        transpose,
        TILES,
        (TILE, TILE),
        lambda: [_random(N, N), _zeros(N, N)],
        lambda x, y: x.T,
    ),
    "histogram": Case(
        "4,096",
        histogram,
        16,
        256,
        lambda: [np.arange(4096, dtype=np.int32) ** 2 % 61, _zeros(64, dtype=np.int32)],
        lambda x, counts: np.bincount(x, minlength=64),
    ),
    "Mandelbrot set": Case(
        "64 x 64",
        mandelbrot,
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
