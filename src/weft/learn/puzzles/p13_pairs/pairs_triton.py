"""Sort each pair of neighbours: y[2i] is the smaller of x[2i] and x[2i + 1], y[2i + 1] the
larger.
"""

import triton
import triton.language as tl


@triton.jit
def pairs(x, y, n):
    i = tl.arange(0, 8)
    # begin
    a, b = tl.load(x + 2 * i, i < n), tl.load(x + 2 * i + 1, i < n)
    tl.store(y + 2 * i, tl.minimum(a, b), i < n)
    tl.store(y + 2 * i + 1, tl.maximum(a, b), i < n)
    # end


def run(x, y, n):
    pairs[(1,)](x, y, n, num_warps=1)
