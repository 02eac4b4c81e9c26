"""Halve each element, with blocks of 8 threads."""

from numba import cuda


@cuda.jit
def blocks(x, y):
    # begin
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < x.size:
        y[i] = x[i] / 2
    # end


def run(x, y, n):
    blocks[(n + 7) // 8, 8](x, y)
