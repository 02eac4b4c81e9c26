"""Kernels, and ops of PyTorch made of them, on the device that tests run on."""

from __future__ import annotations

from typing import Any

import torch

import devices
import draw
import weft

SOURCE = r"""
__global__ void square(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
__global__ void square_backward(const float* x, const float* grad, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = 2 * x[i] * grad[i];
}
template <class T> __global__ void cubic(const T* x, T* y, T a, T b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (a * x[i] + b) * x[i] * x[i];
}
__global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
__global__ void split(const float* x, float* whole, int* sign, bool up, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) whole[i] = up ? ceilf(x[i]) : floorf(x[i]), sign[i] = (x[i] > 0) - (x[i] < 0);
}
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    extern __shared__ float part[];
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        sum += x[blockIdx.x * columns + c];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < blockDim.x; ++t) sum += part[t];
        y[blockIdx.x] = sum;
    }
}
__global__ void counts(const int* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i]], 1);
}
"""
MODULE = weft.cuda(SOURCE)


def where() -> str:
    return "cuda" if devices.current.name == "gpu" else "cpu"


def randn(*shape: int, **more: Any) -> Any:
    generator = draw.seeded(7)
    values = generator.normal(*shape, dtype=more.pop("dtype", torch.float32))
    return values.to(where()).requires_grad_(more.pop("grad", False))


def square(name: str = "mine::square", **more: Any) -> Any:
    return MODULE.square.as_op(name, **{"backward": lambda ctx, grad: 2 * ctx.x * grad, **more})


def row_sums(**more: Any) -> Any:
    return MODULE.row_sums.as_op(
        "mine::row_sums",
        "(Tensor x) -> Tensor",
        grid="x.shape[0]",
        block=32,
        shared_mem="4 * 32",
        args={"rows": "x.shape[0]", "columns": lambda x: x.shape[1]},
        out="(x.shape[0],)",
        backward=lambda ctx, grad: grad[:, None].expand_as(ctx.x),
        **more,
    )


def sized(signature: str = "x:f32[rows,columns] -> y:f32[rows]", **more: Any) -> Any:
    options = {"grid": "rows", "block": 32, "shared_mem": lambda rows: 128, **more}
    return MODULE.row_sums.as_op("mine::sized", signature, **options)
