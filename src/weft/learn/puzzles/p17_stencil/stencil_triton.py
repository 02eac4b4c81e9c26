"""Add each element and its two neighbours; outside of the array there are zeros."""

import triton
import triton.language as tl


@triton.jit
def stencil(x, y, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    left = tl.load(x + i - 1, (i > 0) & (i < n), other=0)
    right = tl.load(x + i + 1, i + 1 < n, other=0)
    tl.store(y + i, left + tl.load(x + i, i < n) + right, i < n)
    # end


def run(x, y, n):
    stencil[(triton.cdiv(n, 8),)](x, y, n, num_warps=1)
