"""Add each value to the sum that it belongs to: y[at[i]] += x[i]."""

from numba import cuda


@cuda.jit
def scatter(x, at, y):
    i = cuda.grid(1)
    # begin
    if i < x.size:
        cuda.atomic.add(y, at[i], x[i])
    # end


def run(x, at, y, n):
    y[:] = 0
    scatter[(n + 7) // 8, 8](x, at, y)
