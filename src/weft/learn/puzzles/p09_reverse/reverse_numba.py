"""Reverse an array: y[0] is the last element of x."""

from numba import cuda


@cuda.jit
def reverse(x, y):
    i = cuda.grid(1)
    # begin
    if i < x.size:
        y[i] = x[x.size - 1 - i]
    # end


def run(x, y, n):
    reverse[(n + 7) // 8, 8](x, y)
