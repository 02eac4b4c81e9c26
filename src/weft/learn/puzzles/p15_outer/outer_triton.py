"""Compute the outer product y[r, c] = a[r] b[c], one block for each row."""

import triton
import triton.language as tl


@triton.jit
def outer(a, b, y, w):
    r, c = tl.program_id(0), tl.arange(0, 8)
    # begin
    tl.store(y + r * w + c, tl.load(a + r) * tl.load(b + c, c < w), c < w)
    # end


def run(a, b, y, h, w):
    outer[(h,)](a, b, y, w, num_warps=1)
