"""Find the place of the largest element in each row; of equal ones, the first."""

import triton
import triton.language as tl


@triton.jit
def argmax(x, y, h, w):
    r, c = tl.arange(0, 8), tl.arange(0, 8)
    # begin
    inside = (r < h)[:, None] & (c < w)[None, :]
    rows = tl.load(x + r[:, None] * w + c[None, :], inside, other=-float("inf"))
    tl.store(y + r, tl.argmax(rows, 1), r < h)
    # end


def run(x, y, h, w):
    argmax[(1,)](x, y, h, w, num_warps=1)
