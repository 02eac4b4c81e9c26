"""Subtract 1 from each element of a matrix with h rows and w columns."""

import triton
import triton.language as tl


@triton.jit
def map_2d(x, y, h, w):
    r, c = tl.arange(0, 8)[:, None], tl.arange(0, 8)[None, :]
    # begin
    inside = (r < h) & (c < w)
    v = tl.load(x + r * w + c, inside)
    tl.store(y + r * w + c, v - 1, inside)
    # end


def run(x, y, h, w):
    map_2d[(1,)](x, y, h, w, num_warps=1)
