"""Matrix products, from the naive kernel to tensor cores, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from everyday import bfloat16, close, from_bfloat16, load, normal, random
from weft import cdiv

SHAPES = [(1, 1, 1), (32, 32, 32), (70, 33, 65), (5, 130, 17), (64, 96, 40)]
FOURS = [(1, 4, 4), (32, 32, 16), (70, 36, 68), (5, 132, 20)]  # 16-byte copies need them

GRIDS = {
    "naive": ((32, 8), SHAPES, (32, 8)),
    "tiled<16>": ((16, 16), SHAPES, (16, 16)),
    "tiled<32>": ((32, 32), SHAPES, (32, 32)),
    "blocked": ((64, 64), SHAPES, (64,)),
    "pipelined": ((32, 32), FOURS, (64,)),
}
"""Kernel -> (columns, rows a block, sizes, block)."""


@pytest.mark.parametrize(
    ("kernel", "shape"), [(k, shape) for k, (_, shapes, _) in GRIDS.items() for shape in shapes]
)
def test_sgemm(kernel: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    (tile_n, tile_m), _, block = GRIDS[kernel]
    a, b = normal((m, k), 1, m), normal((k, n), 2, n)
    c = np.full((m, n), np.nan, np.float32)
    load("sgemm").kernel(kernel)[(cdiv(n, tile_n), cdiv(m, tile_m)), block](a, b, c, m, n, k)
    close(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 16), (128, 192, 48)])
def test_sgemm_vectorised(m: int, n: int, k: int) -> None:
    a, b, c = normal((m, k), 1), normal((k, n), 2), normal((m, n), 3)
    want = 0.5 * (a.astype(np.float64) @ b) - 2.0 * c
    load("sgemm").vectorised[(n // 64, m // 64), 256](a, b, c, m, n, k, 0.5, -2.0)
    close(c, want, rtol=1e-4, atol=1e-4)


def _tf32(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32)
    return ((bits + 0x1000) & 0xFFFFE000).view(np.float32)  # to nearest, ties away


def _random(kernel: str, shape: tuple[int, int], key: int) -> tuple[np.ndarray, np.ndarray]:
    """The arguments of the kernel, and the numbers that they represent."""
    if kernel.startswith("f16"):
        x = normal(shape, key).astype(np.float16)
        return x, x.astype(np.float64)
    if kernel == "bf16":
        bits = bfloat16(normal(shape, key))
        return bits, from_bfloat16(bits).astype(np.float64)
    if kernel == "tf32":
        y = normal(shape, key)
        return y, _tf32(y).astype(np.float64)
    kind = np.dtype(kernel)
    z = random(key).integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
    return z, z.astype(np.float64)


RESULTS = {"f16_f16": (np.float16, 2e-2), "int8": (np.int32, 0.0), "uint8": (np.int32, 0.0)}
COLUMN_MAJOR = {"f16_columns", "tf32", "int8"}


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (32, 80, 48)])
@pytest.mark.parametrize(
    "kernel", ["f16_rows", "f16_columns", "f16_f16", "bf16", "tf32", "int8", "uint8"]
)
def test_wmma(kernel: str, m: int, n: int, k: int) -> None:
    a, a_exact = _random(kernel, (m, k), m)
    b, b_exact = _random(kernel, (k, n), n)
    kind, tolerance = RESULTS.get(kernel, (np.float32, 1e-4))
    c = np.zeros((m, n), kind)
    given = np.ascontiguousarray(b.T) if kernel in COLUMN_MAJOR else b
    load("wmma").kernel(kernel)[(cdiv(n, 32), m // 16), (32, 2)](a, given, c, n, k)
    close(c, a_exact @ b_exact, rtol=tolerance, atol=tolerance)


def test_wmma_fused() -> None:
    m, n, k = 48, 32, 64
    a, b = normal((m, k), 1).astype(np.float16), normal((k, n), 2).astype(np.float16)
    c, d = normal((m, n), 3), np.empty((m, n), np.float32)
    load("wmma").fused[(n // 16, m // 16), 32](a, b, c, d, n, k, 0.25, 1.5)
    close(d, np.maximum(0.25 * (a.astype(np.float64) @ b) + 1.5 * c, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (64, 128, 96), (128, 64, 160)])
def test_mma_sync(m: int, n: int, k: int) -> None:
    a, b = normal((m, k), m).astype(np.float16), normal((k, n), n).astype(np.float16)
    c = np.full((m, n), np.nan, np.float32)
    load("mma").swizzled[(n // 64, m // 64), 128](a, b, c, n, k)
    close(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
