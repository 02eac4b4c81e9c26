"""Sort each pair of neighbours: y[2i] is the smaller of x[2i] and x[2i + 1], y[2i + 1] the
larger.
"""

from numba import cuda


@cuda.jit
def pairs(x, y, n):
    i = cuda.threadIdx.x
    # begin
    if i < n:
        a, b = x[2 * i], x[2 * i + 1]
        y[2 * i] = min(a, b)
        y[2 * i + 1] = max(a, b)
    # end


def run(x, y, n):
    pairs[1, 8](x, y, n)
