"""Numba kernels as people write them: rows of `test_numba.py`.

A row's function gives the arguments; the kernel runs on them, and `expected` is what the last
argument must then be.
"""

from __future__ import annotations

import enum
import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import complex64, cuda, float32, float64, int32
from numba.cuda.random import xoroshiro128p_dtype, xoroshiro128p_uniform_float64

Array = np.ndarray[Any, Any]
TILE = 8
N = 1000


class Row(NamedTuple):
    kernel: Any
    config: tuple[Any, ...]
    args: Callable[[], list[Any]]
    expected: Callable[..., Any]
    tolerance: float = 0.0


ROWS: dict[str, Row] = {}


def row(config: tuple[Any, ...], args: Any, expected: Any, tolerance: float = 0.0) -> Any:
    def add(kernel: Any) -> Any:
        ROWS[kernel.__name__] = Row(kernel, config, args, expected, tolerance)
        return kernel

    return add


def rand(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


# ---- indices, views, types -----------------------------------------------------------------------
@row((8, 128), lambda: [2.0, rand(N), np.ones(N, np.float32)], lambda a, x, y: a * x + 1, 1e-6)
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@row((2, 64), lambda: [rand(N), zeros(N)], lambda x, y: np.abs(x))
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = abs(x[i])


@row(((2, 3), (16, 8)), lambda: [rand(20, 30)[::2, ::-3], zeros(10, 10)], lambda x, y: x + 1)
def strided(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] + float32(1)


@row((1, (4, 4, 4)), lambda: [np.asfortranarray(rand(4, 4, 4)), zeros(4, 4, 4)], lambda x, y: x * 2)
def three_axes(x, y):
    i, j, k = cuda.grid(3)
    y[i, j, k] = 2 * x[i, j, k]


@row((1, 32), lambda: [rand(32), zeros(32)], lambda x, y: x[::-1])
def negative_index(x, y):
    i = cuda.grid(1)
    y[i] = x[-1 - i]


@row((1, 64), lambda: [np.complex64(2 - 1j), rand(64) + 1j * rand(64), zeros(64, dtype=complex)],
     lambda a, z, y: a * z * z.conj() + 1j, 1e-5)  # fmt: skip
def complex_numbers(a, z, y):
    i = cuda.grid(1)
    y[i] = a * z[i] * z[i].conjugate() + complex64(1j)


Point = namedtuple("Point", "x y")


@row((1, 32), lambda: [(rand(32), 3), Point(1.5, np.int16(2)), (1, 2, 3), zeros(32)],
     lambda pair, p, t, y: pair[0] * 3 + 1.5 + 2 + 6, 1e-6)  # fmt: skip
def tuples(pair, p, t, y):
    i = cuda.grid(1)
    total = 0
    for item in t:
        total += item
    y[i] = pair[0][i] * pair[1] + p.x + p.y + total


PARTICLE = np.dtype([("mass", "f4"), ("id", "i8"), ("at", "f8", (3,))], align=True)


def particles() -> Array:
    made = np.zeros(40, PARTICLE)
    made["mass"], made["id"], made["at"] = rand(40), np.arange(40), rand(40, 3)
    return made


@row((1, 64), lambda: [particles(), particles()[3], zeros(40)],
     lambda p, one, y: p["mass"] * p["at"][:, 2] + p["id"] + one["mass"], 1e-6)  # fmt: skip
def records(p, one, y):
    i = cuda.grid(1)
    if i < p.size:
        y[i] = p[i].mass * p[i]["at"][2] + p[i].id + one.mass


class Mode(enum.IntEnum):
    ADD = 1
    MULTIPLY = 2


@row((1, 32), lambda: [Mode.MULTIPLY, np.float16(1.5), True, np.uint8(200), rand(32), zeros(32)],
     lambda mode, h, flag, u, x, y: x * 1.5 + 200, 1e-6)  # fmt: skip
def scalars(mode, h, flag, u, x, y):
    i = cuda.grid(1)
    if flag and mode == Mode.MULTIPLY:
        y[i] = x[i] * float32(h) + u


@row((1, 32), lambda: [np.datetime64("2026-01-01"), np.zeros(32, "datetime64[D]")],
     lambda day, y: np.full(32, day))  # fmt: skip
def dates(day, y):
    y[cuda.grid(1)] = day


@row((1, 32), lambda: [rand(32).astype(np.float16), zeros(32, dtype=np.float16)],
     lambda x, y: x * np.float16(2))  # fmt: skip
def halves(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + x[i]


# ---- memory --------------------------------------------------------------------------------------
@row(((5, 5), (TILE, TILE)), lambda: [rand(37, 40), rand(40, 39), zeros(37, 39)],
     lambda a, b, c: a.astype(np.float64) @ b, 1e-4)  # fmt: skip
def tiled_matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    col, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        sa[ty, tx] = a[row, k + tx] if row < a.shape[0] else 0
        sb[ty, tx] = b[k + ty, col] if col < b.shape[1] else 0
        cuda.syncthreads()
        for i in range(TILE):
            total += sa[ty, i] * sb[i, tx]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@row(((3, 3), (16, 16)), lambda: [rand(37, 40), rand(40, 39), zeros(37, 39)],
     lambda a, b, c: a.astype(np.float64) @ b, 1e-4)  # fmt: skip
def naive_matmul(a, b, c):
    col, row = cuda.grid(2)
    if row < c.shape[0] and col < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]  # sixteen lanes read the same element of a
        c[row, col] = total


@row((4, 64, 64 * 8), lambda: [rand(256, dtype=np.float64)],
     lambda x: x.reshape(4, 64)[:, ::-1].ravel())  # fmt: skip
def dynamic_shared(x):
    s = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = s[s.size - 1 - t]


@row((1, 32), lambda: [rand(32, 16), zeros(32)], lambda x, y: np.sort(x)[:, 8])
def local_arrays(x, y):
    mine = cuda.local.array(16, float32)
    i = cuda.grid(1)
    for j in range(16):
        k = j
        while k > 0 and mine[k - 1] > x[i, j]:
            mine[k] = mine[k - 1]
            k -= 1
        mine[k] = x[i, j]
    y[i] = mine[8]


TABLE = np.arange(64, dtype=np.float32) ** 2
GLOBAL = np.arange(64, dtype=np.int32)[::-1].copy()


@row((1, 64), lambda: [zeros(64)], lambda y: TABLE + GLOBAL)
def constants(y):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    y[i] = table[i] + GLOBAL[i]


# ---- threads together ----------------------------------------------------------------------------
@cuda.jit(device=True)
def warp_sum(v):
    offset = 16
    while offset > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, offset)
        offset //= 2
    return v


@row((4, 256), lambda: [rand(N), zeros(1)], lambda x, y: [x.sum(dtype=np.float64)], 1e-3)
def block_sum(x, y):
    partial = cuda.shared.array(32, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    total = warp_sum(x[i] if i < x.size else float32(0))
    if t % 32 == 0:
        partial[t // 32] = total
    cuda.syncthreads()
    if t < 32:
        total = warp_sum(partial[t] if t < cuda.blockDim.x // 32 else float32(0))
        if t == 0:
            cuda.atomic.add(y, 0, total)


def votes_expected(x: Array, y: Array) -> Array:
    bits = sum(1 << int(i) for i in np.flatnonzero(x > 0))
    equal = [sum(1 << j for j in range(32) if j % 4 == i % 4) for i in range(32)]
    return np.array([bits, 1, 0, *equal], np.uint32)


@row((1, 32), lambda: [rand(32), zeros(35, dtype=np.uint32)], votes_expected)
def votes(x, y):
    t, full = cuda.laneid, 0xFFFFFFFF
    y[0] = cuda.ballot_sync(full, x[t] > 0)
    y[1] = cuda.any_sync(full, x[t] > 0)
    y[2] = cuda.all_sync(full, x[t] > 0)
    y[3 + t] = cuda.match_any_sync(full, t % 4)


@row((8, 128), lambda: [np.arange(N, dtype=np.int32) % 10, zeros(13, dtype=np.int32)],
     lambda x, y: [*np.bincount(x, minlength=10), 9, N - 1, 1])  # fmt: skip
def atomics(x, y):
    mine = cuda.shared.array(10, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 10:
        mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, x[i], 1)
        cuda.atomic.max(y, 10, x[i])
        cuda.atomic.max(y, 11, i)
    cuda.atomic.cas(y, 12, 0, 1)
    cuda.syncthreads()
    if t < 10:
        cuda.atomic.add(y, t, mine[t])


@row((8, 64), lambda: [np.arange(512, dtype=np.int32), zeros(512, dtype=np.int32)],
     lambda x, y: 2 * ((np.arange(512) + 200) % 512))  # fmt: skip
def grid_sync(x, y):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    x[i] *= 2
    grid.sync()
    y[i] = x[(i + 200) % 512]


# ---- functions -----------------------------------------------------------------------------------
def mathematics_expected(x: Array, y: Array) -> Array:
    x = x.astype(np.float64)
    erf = np.array([math.erf(v) for v in x])
    return np.stack([np.exp(x), np.log1p(x * x), erf, x % 0.3])


@row((1, 64), lambda: [rand(64, dtype=np.float64), zeros(4, 64, dtype=np.float64)],
     mathematics_expected, 1e-10)  # fmt: skip
def mathematics(x, y):
    i = cuda.grid(1)
    y[0, i] = math.exp(x[i])
    y[1, i] = math.log1p(x[i] * x[i])
    y[2, i] = math.erf(x[i])
    y[3, i] = x[i] % 0.3


@row((1, 64), lambda: [rand(64) * 100, zeros(2, 64)],
     lambda x, y: np.stack([np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))]),
     1e-6)  # fmt: skip
def single_precision(x, y):
    i = cuda.grid(1)
    y[0, i] = math.sin(x[i])
    y[1, i] = math.cos(x[i])


@row((1, 64), lambda: [zeros(64, dtype=np.int64)],
     lambda y: [i.bit_count() + i // 7 + i % 5 for i in range(64)])  # fmt: skip
def integers(y):
    i = cuda.grid(1)
    y[i] = cuda.popc(i) + i // 7 + i % 5


def states() -> Array:
    bits = np.random.default_rng(7).integers(0, 2**64, (64, 2), np.uint64)
    return bits.view(xoroshiro128p_dtype)[:, 0]


def uniform_expected(states: Array, y: Array) -> Array:
    """Xoroshiro128+ gives the sum of its two words; the upper 53 bits are the fraction."""
    return ((states["s0"] + states["s1"]) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@row((1, 64), lambda: [states(), zeros(64, dtype=np.float64)], uniform_expected)
def random_numbers(states, y):
    i = cuda.grid(1)
    y[i] = xoroshiro128p_uniform_float64(states, i)
