"""Launches that both the simulator and ncu count: one row each, with the arrays it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
N = 1 << 20
HERE = Path(__file__).parent
OWN, SPEED = HERE / "kernels.cu", HERE.parent / "kernels"
EXAMPLES = HERE.parents[1] / "src" / "weft" / "examples"


@dataclass(frozen=True)
class Case:
    """A launch; `make` gives its arguments, the same ones each time."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    make: Callable[[], list[Any]]
    file: Path = OWN


def _f(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def _zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def _ints(high: int, n: int, dtype: Any = np.int32) -> Array:
    return np.random.default_rng(2).integers(0, high, n).astype(dtype)


def _flat(kernel: str, make: Callable[[], list[Any]], n: int = N, block: int = 256) -> Case:
    return Case(kernel, (n // block,), (block,), make)


def _square(kernel: str, n: int, tile: tuple[int, int], block: tuple[int, int]) -> Case:
    return Case(kernel, (n // tile[0], n // tile[1]), block, lambda: [_f(n, n), _zeros(n, n), n])


def _product(kernel: str, n: int, block: tuple[int, int]) -> Case:
    grid = (n // block[0], n // block[1])
    return Case(kernel, grid, block, lambda: [_f(n, n), _f(n, n), _zeros(n, n), n])


def _speed(kernel: str, grid: tuple[int, ...], block: tuple[int, ...],
           make: Callable[[], list[Any]]) -> Case:  # fmt: skip
    return Case(kernel, grid, block, make, SPEED / f"{kernel}.cu")


CASES = [
    _flat("copy", lambda: [_f(4 * N), _zeros(4 * N), 4 * N], 4 * N),
    _flat("copy4", lambda: [_f(4 * N), _zeros(4 * N), N]),
    _flat("copy_offset", lambda: [_f(N + 64), _zeros(N), N]),
    _flat("copy_strided", lambda: [_f(2 * N), _zeros(N), N]),
    _flat("copy_far", lambda: [_f(4 * N), _zeros(N // 8), N // 8], N // 8),
    _flat("gather", lambda: [_f(N), _ints(N, N), _zeros(N), N]),
    _flat("scatter", lambda: [_f(N), np.random.default_rng(3).permutation(N).astype(np.int32),
                              _zeros(N), N]),
    _flat("saxpy", lambda: [_f(4 * N), _f(4 * N), 2.0, 4 * N], 4 * N),
    _flat("points", lambda: [_f(3 * N), _zeros(N), N]),
    _flat("halves", lambda: [_f(2 * N).astype(np.float16), _zeros(2 * N, dtype=np.float16), N]),
    _flat("bytes", lambda: [_ints(256, 4 * N, np.uint8), _zeros(4 * N, dtype=np.uint8), 4 * N],
          4 * N),
    _flat("doubles", lambda: [_f(N).astype(np.float64), _zeros(N, dtype=np.float64), N]),
    Case("grid_stride", (264,), (256,), lambda: [_f(N + 77), _zeros(N + 77), N + 77]),
    _square("transpose_naive", 1024, (32, 8), (32, 8)),
    _square("transpose_conflict", 1024, (32, 32), (32, 8)),
    _square("transpose_padded", 1024, (32, 32), (32, 8)),
    _flat("reduce_interleaved", lambda: [_f(N), _zeros(N // 256)]),
    _flat("reduce_sequential", lambda: [_f(N), _zeros(N // 256)]),
    Case("reduce_shuffle", (264,), (256,), lambda: [_f(4 * N), _zeros(1), N]),
    _flat("scan", lambda: [_ints(9, N), _zeros(N, dtype=np.int32)], block=512),
    Case("softmax", (1024,), (256,), lambda: [_f(1024, 1000), _zeros(1024, 1000), 1000]),
    Case("layernorm", (256,), (256,),
         lambda: [_f(2048, 768), _f(768), _f(768), _zeros(2048, 768), 768]),
    _product("matmul_naive", 256, (32, 8)),
    _product("matmul_tiled", 256, (16, 16)),
    Case("matvec", (128,), (256,), lambda: [_f(1024, 1024), _f(1024), _zeros(1024), 1024]),
    _flat("stencil", lambda: [_f(N), _zeros(N), N]),
    _square("heat", 1024, (32, 8), (32, 8)),
    _square("blur", 1024, (32, 8), (32, 8)),
    Case("histogram_global", (132,), (256,),
         lambda: [_ints(256, N, np.uint8), _zeros(256, dtype=np.uint32), N]),
    Case("histogram_shared", (132,), (256,),
         lambda: [_ints(256, N, np.uint8), _zeros(256, dtype=np.uint32), N]),
    _flat("tickets", lambda: [_zeros(64, dtype=np.int32), _zeros(N // 4, dtype=np.int32), N // 4],
          N // 4),
    _flat("divergent", lambda: [_ints(64, N // 4), _zeros(N // 4), N // 4], N // 4),
    _flat("private_array", lambda: [_ints(64, N // 4), _zeros(N // 4), N // 4], N // 4),
    _flat("vectors_shared", lambda: [_f(N), _zeros(N)], N // 4),
    _flat("pairs_shared", lambda: [_f(N).astype(np.float64), _zeros(N, dtype=np.float64)]),
    _flat("staged", lambda: [_f(N), _zeros(N)], N // 4),
    Case("bitonic", (512,), (256,), lambda: [_ints(1 << 30, 512 * 512)]),
    Case("lookup", (2048,), (128,),
         lambda: [_f(8192, 256), _ints(8192, 2048), _zeros(2048, 256), 256]),
    Case("bodies", (32,), (128,), lambda: [_f(4096, 4), _zeros(4096, 4), 4096]),
    _speed("sgemm_blocked", (4, 4), (256,),
           lambda: [_f(512, 512), _f(512, 512), _zeros(512, 512), 512, 512, 512]),
    _speed("hgemm", (8, 8), (128,),
           lambda: [_f(512, 512).astype(np.float16), _f(512, 512).astype(np.float16),
                    _zeros(512, 512), 512, 512, 512]),
    _speed("attention", (16,), (64,),
           lambda: [_f(1024, 64), _f(1024, 64), _f(1024, 64), _zeros(1024, 64), 1024, 0.125]),
    Case("matmul_wmma", (16, 16), (32,),
         lambda: [_f(256, 256).astype(np.float16), _f(256, 256).astype(np.float16),
                  _zeros(256, 256), 256], EXAMPLES / "matmul_wmma.cu"),
    _speed("collatz", (512,), (256,), lambda: [_zeros(131072, dtype=np.int32), 131072]),
]  # fmt: skip
