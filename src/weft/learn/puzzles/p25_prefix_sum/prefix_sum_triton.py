"""Compute the running sums of up to 16 elements: y[i] = x[0] + … + x[i]."""

import triton
import triton.language as tl


@triton.jit
def prefix_sum(x, y, n):
    i = tl.arange(0, 16)
    # begin
    tl.store(y + i, tl.cumsum(tl.load(x + i, i < n, other=0)), i < n)
    # end


def run(x, y, n):
    prefix_sum[(1,)](x, y, n, num_warps=1)
