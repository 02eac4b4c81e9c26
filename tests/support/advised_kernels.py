"""Kernels that a rule of advice must name, and like ones that it must pass over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SOURCE = r"""
#define I (blockIdx.x * blockDim.x + threadIdx.x)
__global__ void copy(const float* x, float* y) { y[I] = x[I]; }
__global__ void copy4(const float4* x, float4* y) { y[I] = x[I]; }
__global__ void strided(const float* x, float* y) { y[I] = x[I * 8]; }
__global__ void scan_for(const float* x, float* y) { if (x[I] + 1.0f == 123.0f) y[0] = 1.0f; }

__global__ void matmul(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}
__global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float s[16][16], t[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        s[y][x] = a[row * n + k + x];
        t[y][x] = b[(k + y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; ++j)
            sum += s[y][j] * t[j][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
__global__ void kept(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[I];
    __syncthreads();
    float v = s[threadIdx.x ^ 32], sum = 0.0f;
    for (int j = 0; j < 64; ++j)
        sum = sum * v + 1.0f;
    y[I] = sum;
}
template <int PAD> __global__ void transpose(const float* x, float* y) {
    __shared__ float s[32][32 + PAD];
    s[threadIdx.y][threadIdx.x] = x[blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x] = s[threadIdx.x][threadIdx.y];
}
__global__ void counted(const int* x, int* bins) { atomicAdd(&bins[x[I] & 63], 1); }
__global__ void private_counts(const int* x, int* bins) {
    __shared__ int mine[64];
    if (threadIdx.x < 64) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < 8; ++k) atomicAdd(&mine[x[I] + k & 63], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
__global__ void histogram(const int* x, int* y) {
    __shared__ int bins[1024];
    for (int j = threadIdx.x; j < 1024; j += blockDim.x) bins[j] = 0;
    __syncthreads();
    for (int k = 1; k < 32; k += 2)
        atomicAdd(&bins[x[I] * k & 1023], 1);
    __syncthreads();
    y[I] = bins[threadIdx.x];
}
__global__ void indexed(const int* x, float* y) {
    float a[16];
    for (int k = 0; k < 16; ++k) a[(k * 7 + x[I]) & 15] = k;
    y[I] = a[x[I] & 15];
}
__global__ void flags(unsigned char* y) { y[I] = 1; }
__global__ void odd_lanes(float* y) {
    float v = I;
    if (threadIdx.x % 4 == 0)
        for (int k = 0; k < 40; ++k) v = v * 1.5f + 1.0f;
    y[I] = v;
}
__global__ void odd_warps(float* y) {
    float v = I;
    if (threadIdx.x / 32 % 4 == 0)
        for (int k = 0; k < 40; ++k) v = v * 1.5f + 1.0f;
    y[I] = v;
}
template <class T> __global__ void polynomial(T* y) {
    T v = I;
    for (int k = 0; k < 16; ++k) v = v * v + T(1);
    y[I] = v;
}
__global__ void divided(float* y, float a) {
    float v = I;
    for (int k = 0; k < 8; ++k)
        v = v / a;
    y[I] = v;
}
__global__ void multiplied(float* y, float a) {
    float v = I;
    for (int k = 0; k < 8; ++k)
        v = v * a;
    y[I] = v;
}
"""


def ones(n: int, dtype: Any = np.float32) -> Any:
    return np.ones(n, dtype)


@dataclass(frozen=True)
class Row:
    """A launch, and what is expected of a rule: `line` is a piece of the line that it must name."""

    rule: str
    kernel: str
    grid: Any
    block: Any
    args: tuple[Any, ...]
    named: bool = True
    line: str = ""
    shared: int = 0
    gpu: str = "h200"

    def __str__(self) -> str:
        return f"{self.rule}-{self.kernel}-{'named' if self.named else 'silent'}"


def rows() -> list[Row]:
    """Each rule with what it must name and what it must pass over."""
    n = 256 * 256
    x, y, ints, bins = ones(8 * n), ones(n), ones(n, np.int32), ones(64, np.int32)
    square = (ones(64 * 64), ones(64 * 64), ones(64 * 64), 64)
    tiles = ((4, 4), (16, 16))
    full = 132 * 8
    drawn = np.random.default_rng(1).integers(0, 1024, n).astype(np.int32)
    return [
        Row("coalescing", "strided", 256, 256, (x, y), line="x[I * 8]"),
        Row("coalescing", "copy", 256, 256, (x, y), named=False),
        Row("tiling and reuse", "matmul", *tiles, square, line="sum += a["),
        Row("tiling and reuse", "copy", 256, 256, (x, y), named=False),
        Row("register tiling", "tiled", *tiles, square, line="s[y][j]"),
        Row("register tiling", "kept", 256, 256, (x, y), named=False),
        Row("vector loads", "copy", 256, 256, (x, y), line="y[I] = x[I]"),
        Row("vector loads", "copy4", 64, 256, (x, y), named=False),
        Row("bank conflicts", "transpose<0>", 64, (32, 32), (x, y), line="s[threadIdx.x]"),
        Row("bank conflicts", "transpose<1>", 64, (32, 32), (x, y), named=False),
        Row("shared atomics", "histogram", 256, 256, (drawn, ints), line="&bins[x[I] * k"),
        Row("shared atomics", "transpose<0>", 64, (32, 32), (x, y), named=False),
        Row("bank conflicts", "histogram", 256, 256, (drawn, ints), named=False),
        Row("privatisation", "counted", 256, 256, (ints, bins), line="atomicAdd"),
        Row("privatisation", "private_counts", 256, 256, (ints, bins), named=False),
        Row("spills", "indexed", 256, 256, (ints, y), line="a["),
        Row("spills", "copy", 256, 256, (x, y), named=False),
        Row("memory-bound", "scan_for", 256, 256, (x, y), line="x[I]"),
        Row("memory-bound", "copy4", 64, 256, (x, y), named=False),
        Row("occupancy", "copy", 512, 256, (x, ones(2 * n)), shared=100_000),
        Row("occupancy", "copy", 512, 256, (x, ones(2 * n)), named=False),
        Row("tail effect", "matmul", *tiles, square),
        Row("tail effect", "copy", 1, 256, (x, y), named=False),  # it is one trip to memory
        Row("tail effect", "copy", full + 8, 256, (x, ones(5 * n))),
        Row("tail effect", "copy", full, 256, (x, ones(5 * n)), named=False),
        Row("thread coarsening", "flags", 4 * full, 256, (ones(4 * full * 256, np.uint8),)),
        Row("thread coarsening", "copy", 256, 256, (x, y), named=False),
        Row("divergence", "odd_lanes", 256, 256, (y,), line="threadIdx.x % 4"),
        Row("divergence", "odd_warps", 256, 256, (y,), named=False),
        Row("tensor cores unused", "matmul", *tiles, square, line="sum += a["),
        Row("tensor cores unused", "kept", 256, 256, (x, y), named=False),
        Row("low precision", "polynomial<double>", 256, 256, (ones(n, np.float64),),
            line="v * v", gpu="rtx3070"),
        Row("low precision", "polynomial<float>", 256, 256, (y,), named=False, gpu="rtx3070"),
        Row("better mathematics", "divided", 256, 256, (y, 3.0), line="v / a"),
        Row("better mathematics", "multiplied", 256, 256, (y, 3.0), named=False),
    ]  # fmt: skip
