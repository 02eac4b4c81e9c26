"""Add a column and a row: y[r, c] = a[r] + b[c]."""

from numba import cuda


@cuda.jit
def broadcast(a, b, y):
    c, r = cuda.threadIdx.x, cuda.threadIdx.y
    # begin
    if r < a.size and c < b.size:
        y[r, c] = a[r] + b[c]
    # end


def run(a, b, y, h, w):
    broadcast[1, (8, 8)](a, b, y)
