"""Square each element, with 8 threads in all, however long the array is."""

import triton
import triton.language as tl


@triton.jit
def stride(x, y, n):
    # begin
    first = tl.program_id(0) * 4 + tl.arange(0, 4)
    for start in range(0, n, 8):
        i = start + first
        v = tl.load(x + i, i < n)
        tl.store(y + i, v * v, i < n)
    # end


def run(x, y, n):
    stride[(2,)](x, y, n, num_warps=1)
