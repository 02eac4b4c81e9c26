"""Look up: y[i] = x[at[i]]."""

from numba import cuda


@cuda.jit
def gather(x, at, y):
    i = cuda.grid(1)
    # begin
    if i < y.size:
        y[i] = x[at[i]]
    # end


def run(x, at, y, n):
    gather[(n + 7) // 8, 8](x, at, y)
