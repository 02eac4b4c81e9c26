"""Compute the dot product of two arrays of up to 32 elements, in one warp."""

import triton
import triton.language as tl


@triton.jit
def dot(a, b, y, n):
    i = tl.arange(0, 32)
    # begin
    products = tl.load(a + i, i < n, other=0) * tl.load(b + i, i < n, other=0)
    tl.store(y, tl.sum(products))
    # end


def run(a, b, y, n):
    dot[(1,)](a, b, y, n, num_warps=1)
