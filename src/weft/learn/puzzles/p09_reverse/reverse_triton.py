"""Reverse an array: y[0] is the last element of x."""

import triton
import triton.language as tl


@triton.jit
def reverse(x, y, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    tl.store(y + i, tl.load(x + n - 1 - i, i < n), i < n)
    # end


def run(x, y, n):
    reverse[(triton.cdiv(n, 8),)](x, y, n, num_warps=1)
