"""Transpose a matrix: y[c, r] = x[r, c]."""

import triton
import triton.language as tl


@triton.jit
def transpose(x, y, h, w):
    r, c = tl.arange(0, 8)[:, None], tl.arange(0, 8)[None, :]
    # begin
    inside = (r < h) & (c < w)
    tl.store(y + c * h + r, tl.load(x + r * w + c, inside), inside)
    # end


def run(x, y, h, w):
    transpose[(1,)](x, y, h, w, num_warps=1)
