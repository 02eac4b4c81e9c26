"""Multiply each element by 3, with more threads than elements."""

from numba import cuda


@cuda.jit
def guard(x, y, n):
    i = cuda.threadIdx.x
    # begin
    if i < n:
        y[i] = 3 * x[i]
    # end


def run(x, y, n):
    guard[1, 16](x, y, n)
