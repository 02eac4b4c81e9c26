"""Kernels in CUDA C++ as people write them: one row a launch, with the arrays it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from profiled.case import HERE, Case, f32, ints, zeros

N = 1 << 20
SPEED = HERE.parent / "kernels"
EXAMPLES = HERE.parents[1] / "src" / "weft" / "examples"


def _flat(kernel: str, make: Callable[[], list[Any]], n: int = N, block: int = 256) -> Case:
    return Case(kernel, (n // block,), (block,), make)


def _square(kernel: str, n: int, tile: tuple[int, int], block: tuple[int, int]) -> Case:
    return Case(kernel, (n // tile[0], n // tile[1]), block, lambda: [f32(n, n), zeros(n, n), n])


def _product(kernel: str, n: int, block: tuple[int, int]) -> Case:
    grid = (n // block[0], n // block[1])
    return Case(kernel, grid, block, lambda: [f32(n, n), f32(n, n), zeros(n, n), n])


def _speed(
    kernel: str, grid: tuple[int, ...], block: tuple[int, ...], make: Callable[[], list[Any]]
) -> Case:
    return Case(kernel, grid, block, make, SPEED / f"{kernel}.cu")


CASES = [
    _flat("copy", lambda: [f32(4 * N), zeros(4 * N), 4 * N], 4 * N),
    _flat("copy4", lambda: [f32(4 * N), zeros(4 * N), N]),
    _flat("copy_offset", lambda: [f32(N + 64), zeros(N), N]),
    _flat("copy_strided", lambda: [f32(2 * N), zeros(N), N]),
    _flat("copy_far", lambda: [f32(4 * N), zeros(N // 8), N // 8], N // 8),
    _flat("gather", lambda: [f32(N), ints(N, N), zeros(N), N]),
    _flat("scatter", lambda: [f32(N), np.random.default_rng(3).permutation(N).astype(np.int32),
                              zeros(N), N]),
    _flat("saxpy", lambda: [f32(4 * N), f32(4 * N), 2.0, 4 * N], 4 * N),
    _flat("points", lambda: [f32(3 * N), zeros(N), N]),
    _flat("halves", lambda: [f32(2 * N).astype(np.float16), zeros(2 * N, dtype=np.float16), N]),
    _flat("bytes", lambda: [ints(256, 4 * N, np.uint8), zeros(4 * N, dtype=np.uint8), 4 * N],
          4 * N),
    _flat("doubles", lambda: [f32(N).astype(np.float64), zeros(N, dtype=np.float64), N]),
    Case("grid_stride", (264,), (256,), lambda: [f32(N + 77), zeros(N + 77), N + 77]),
    _square("transpose_naive", 1024, (32, 8), (32, 8)),
    _square("transpose_conflict", 1024, (32, 32), (32, 8)),
    _square("transpose_padded", 1024, (32, 32), (32, 8)),
    _flat("reduce_interleaved", lambda: [f32(N), zeros(N // 256)]),
    _flat("reduce_sequential", lambda: [f32(N), zeros(N // 256)]),
    Case("reduce_shuffle", (264,), (256,), lambda: [f32(4 * N), zeros(1), N]),
    _flat("scan", lambda: [ints(9, N), zeros(N, dtype=np.int32)], block=512),
    Case("softmax", (1024,), (256,), lambda: [f32(1024, 1000), zeros(1024, 1000), 1000]),
    Case("layernorm", (256,), (256,),
         lambda: [f32(2048, 768), f32(768), f32(768), zeros(2048, 768), 768]),
    _product("matmul_naive", 256, (32, 8)),
    _product("matmul_tiled", 256, (16, 16)),
    Case("matvec", (128,), (256,), lambda: [f32(1024, 1024), f32(1024), zeros(1024), 1024]),
    _flat("stencil", lambda: [f32(N), zeros(N), N]),
    _square("heat", 1024, (32, 8), (32, 8)),
    _square("blur", 1024, (32, 8), (32, 8)),
    Case("histogram_global", (132,), (256,),
         lambda: [ints(256, N, np.uint8), zeros(256, dtype=np.uint32), N]),
    Case("histogram_shared", (132,), (256,),
         lambda: [ints(256, N, np.uint8), zeros(256, dtype=np.uint32), N]),
    _flat("tickets", lambda: [zeros(64, dtype=np.int32), zeros(N // 4, dtype=np.int32), N // 4],
          N // 4),
    _flat("divergent", lambda: [ints(64, N // 4), zeros(N // 4), N // 4], N // 4),
    _flat("private_array", lambda: [ints(64, N // 4), zeros(N // 4), N // 4], N // 4),
    _flat("vectors_shared", lambda: [f32(N), zeros(N)], N // 4),
    _flat("pairs_shared", lambda: [f32(N).astype(np.float64), zeros(N, dtype=np.float64)]),
    _flat("staged", lambda: [f32(N), zeros(N)], N // 4),
    Case("bitonic", (512,), (256,), lambda: [ints(1 << 30, 512 * 512)]),
    Case("lookup", (2048,), (128,),
         lambda: [f32(8192, 256), ints(8192, 2048), zeros(2048, 256), 256]),
    Case("bodies", (32,), (128,), lambda: [f32(4096, 4), zeros(4096, 4), 4096]),
    _speed("sgemm_blocked", (4, 4), (256,),
           lambda: [f32(512, 512), f32(512, 512), zeros(512, 512), 512, 512, 512]),
    _speed("hgemm", (8, 8), (128,),
           lambda: [f32(512, 512).astype(np.float16), f32(512, 512).astype(np.float16),
                    zeros(512, 512), 512, 512, 512]),
    _speed("attention", (16,), (64,),
           lambda: [f32(1024, 64), f32(1024, 64), f32(1024, 64), zeros(1024, 64), 1024, 0.125]),
    Case("matmul_wmma", (16, 16), (32,),
         lambda: [f32(256, 256).astype(np.float16), f32(256, 256).astype(np.float16),
                  zeros(256, 256), 256], EXAMPLES / "matmul_wmma.cu"),
    _speed("collatz", (512,), (256,), lambda: [zeros(131072, dtype=np.int32), 131072]),
]  # fmt: skip
