"""Move each element three places to the right; the last three come to the front."""

from numba import cuda


@cuda.jit
def rotate(x, y):
    i = cuda.grid(1)
    # begin
    if i < x.size:
        y[(i + 3) % x.size] = x[i]
    # end


def run(x, y, n):
    rotate[(n + 7) // 8, 8](x, y)
