"""The same work in Triton's interpreter, at sizes it can do.

Run with TRITON_INTERPRET=1; prints work and processor seconds as JSON. A program covers what a
block of the CUDA kernel covers.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from work import COLLATZ_STEPS, seconds


@triton.jit
def matmul(
    a,
    b,
    c,
    n: tl.constexpr,  # NumPy 2.5 has no range() of the interpreter's numbers
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):  # type: ignore[no-untyped-def]
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, n, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * n + k[None, :])
        if TRANSPOSED:
            y = tl.load(b + cols[None, :] * n + k[:, None])
        else:
            y = tl.load(b + k[:, None] * n + cols[None, :])
        total = tl.dot(x, y, total, input_precision="ieee")
    tl.store(c + rows[:, None] * n + cols[None, :], total)


@triton.jit
def reduce(x, partial, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    p = tl.program_id(0)
    tl.store(partial + p, tl.sum(tl.load(x + p * BLOCK + tl.arange(0, BLOCK)), 0))


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, i < n, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + i, e / tl.sum(e, 0), i < n)


@triton.jit
def transpose(x, y, n, T: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.program_id(1) * T + tl.arange(0, T)
    cols = tl.program_id(0) * T + tl.arange(0, T)
    tile = tl.load(x + rows[:, None] * n + cols[None, :])
    tl.store(y + cols[:, None] * n + rows[None, :], tl.trans(tile))


@triton.jit
def collatz(steps, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = (i + 1).to(tl.int64)
    count = tl.zeros((BLOCK,), tl.int32)
    while tl.max(v, 0) > 1:
        going = v > 1
        v = tl.where(going, tl.where(v % 2 == 1, 3 * v + 1, v // 2), v)
        count += going.to(tl.int32)
    tl.store(steps + i, count, i < n)


def _product(n: int, tile: tuple[int, int, int], dtype: torch.dtype) -> float:
    a, b = (torch.randn(n, n, dtype=torch.float32).to(dtype) for _ in range(2))
    c, half = torch.empty(n, n), dtype == torch.float16
    grid = (n // tile[1], n // tile[0])
    took = seconds(lambda: matmul[grid](a, b, c, n, *tile, TRANSPOSED=half))
    assert torch.allclose(c, a.float() @ (b.T if half else b).float(), atol=1e-1)
    return took


def _reduce(n: int) -> float:
    x, out = torch.randn(n), torch.empty(n // 512)
    took = seconds(lambda: reduce[(n // 512,)](x, out, BLOCK=512))
    assert torch.isclose(out.sum(), x.sum(), atol=1e-1)
    return took


def _softmax(rows: int, cols: int) -> float:
    x, y = torch.randn(rows, cols), torch.empty(rows, cols)
    took = seconds(lambda: softmax[(rows,)](x, y, cols, BLOCK=1024))
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-5)
    return took


def _transpose(n: int) -> float:
    x, y = torch.randn(n, n), torch.empty(n, n)
    took = seconds(lambda: transpose[(n // 32, n // 32)](x, y, n, T=32))
    assert torch.equal(x.T, y)
    return took


def _collatz(n: int) -> float:
    steps = torch.empty(n, dtype=torch.int32)
    took = seconds(lambda: collatz[(n // 256,)](steps, n, BLOCK=256))
    assert int(steps[26]) == 111
    return took


N = 256

RUNS: dict[str, tuple[float, Callable[[], float]]] = {
    "sgemm_tiled": (2.0 * 64**3, lambda: _product(64, (16, 16, 16), torch.float32)),
    "sgemm_blocked": (2.0 * N**3, lambda: _product(N, (128, 128, 8), torch.float32)),
    "reduce": (1 << 15, lambda: _reduce(1 << 15)),
    "softmax": (64e3, lambda: _softmax(64, 1000)),
    "transpose": (N**2, lambda: _transpose(N)),
    "collatz": (COLLATZ_STEPS, lambda: _collatz(512)),
    "hgemm": (2.0 * N**3, lambda: _product(N, (64, 64, 32), torch.float16)),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    cases = {name: {"work": work, "seconds": run()} for name, (work, run) in RUNS.items()}
    print(json.dumps({"version": triton.__version__, "cases": cases}))
