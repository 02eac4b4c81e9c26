"""Add each value to the sum that it belongs to: y[at[i]] += x[i]."""

import triton
import triton.language as tl


@triton.jit
def scatter(x, at, y, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    place = tl.load(at + i, i < n)
    tl.atomic_add(y + place, tl.load(x + i, i < n), i < n)
    # end


def run(x, at, y, n):
    y.zero_()
    scatter[(triton.cdiv(n, 8),)](x, at, y, n, num_warps=1)
