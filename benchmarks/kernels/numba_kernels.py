"""Kernels written for Numba, which two benchmarks time: `frontends_speed.py` and `sim_speed.py`.

Nothing is used that Numba's simulator does not have: no warp shuffles, no cooperative groups.
"""

from __future__ import annotations

import math

from numba import cuda, float32, int32

TILE, PADDED = 16, 17


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
def total(x, out):
    """An element a thread; blocks add to one number."""
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
def partial_sums(x, partial):
    """Two elements a thread and a sum a block, as kernels/reduce.cu."""
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
def softmax_scan(x, y):
    """Every thread reads what all have found."""
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
def softmax_tree(x, y, n):
    """Combine the threads' results by a tree of halves."""
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
def transpose_square(x, y):
    """An element a thread."""
    tile = cuda.shared.array((TILE, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx]
    cuda.syncthreads()
    y[cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx] = tile[tx, ty]


@cuda.jit
def transpose_strips(x, y):
    """Four elements a thread, as kernels/transpose.cu."""
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for r in range(0, 32, 8):
        tile[ty + r, tx] = x[cuda.blockIdx.y * 32 + ty + r, cuda.blockIdx.x * 32 + tx]
    cuda.syncthreads()
    for r in range(0, 32, 8):
        y[cuda.blockIdx.x * 32 + ty + r, cuda.blockIdx.y * 32 + tx] = tile[tx, ty + r]


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


@cuda.jit
def collatz(steps, n):
    i = cuda.grid(1)
    if i < n:
        v = i + 1
        count = 0
        while v != 1:
            v = 3 * v + 1 if v % 2 else v // 2
            count += 1
        steps[i] = count
