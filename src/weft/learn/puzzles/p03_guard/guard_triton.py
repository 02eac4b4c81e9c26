"""Multiply each element by 3, with more threads than elements."""

import triton
import triton.language as tl


@triton.jit
def guard(x, y, n):
    i = tl.arange(0, 16)
    # begin
    inside = i < n
    tl.store(y + i, 3 * tl.load(x + i, inside), inside)
    # end


def run(x, y, n):
    guard[(1,)](x, y, n, num_warps=1)
