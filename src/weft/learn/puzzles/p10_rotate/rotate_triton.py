"""Move each element three places to the right; the last three come to the front."""

import triton
import triton.language as tl


@triton.jit
def rotate(x, y, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    tl.store(y + (i + 3) % n, tl.load(x + i, i < n), i < n)
    # end


def run(x, y, n):
    rotate[(triton.cdiv(n, 8),)](x, y, n, num_warps=1)
