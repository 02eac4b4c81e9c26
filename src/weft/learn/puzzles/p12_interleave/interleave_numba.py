"""Merge two arrays: y is a[0], b[0], a[1], b[1], and so on."""

from numba import cuda


@cuda.jit
def interleave(a, b, y):
    i = cuda.threadIdx.x
    # begin
    if i < a.size:
        y[2 * i] = a[i]
        y[2 * i + 1] = b[i]
    # end


def run(a, b, y, n):
    interleave[1, 8](a, b, y)
