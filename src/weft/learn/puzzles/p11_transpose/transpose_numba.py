"""Transpose a matrix: y[c, r] = x[r, c]."""

from numba import cuda


@cuda.jit
def transpose(x, y):
    c, r = cuda.threadIdx.x, cuda.threadIdx.y
    # begin
    if r < x.shape[0] and c < x.shape[1]:
        y[c, r] = x[r, c]
    # end


def run(x, y, h, w):
    transpose[1, (8, 8)](x, y)
