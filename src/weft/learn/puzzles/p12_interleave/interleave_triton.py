"""Merge two arrays: y is a[0], b[0], a[1], b[1], and so on."""

import triton
import triton.language as tl


@triton.jit
def interleave(a, b, y, n):
    i = tl.arange(0, 8)
    # begin
    tl.store(y + 2 * i, tl.load(a + i, i < n), i < n)
    tl.store(y + 2 * i + 1, tl.load(b + i, i < n), i < n)
    # end


def run(a, b, y, n):
    interleave[(1,)](a, b, y, n, num_warps=1)
