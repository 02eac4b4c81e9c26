"""Slide a filter k of 4 numbers: y[i] = x[i] k[0] + x[i + 1] k[1] + x[i + 2] k[2] + x[i + 3]
k[3]; behind the array there are zeros.
"""

import triton
import triton.language as tl


@triton.jit
def conv_1d(x, k, y, n):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    # begin
    sums = tl.zeros((8,), tl.float32)
    for j in range(4):
        sums += tl.load(x + i + j, i + j < n, other=0) * tl.load(k + j)
    tl.store(y + i, sums, i < n)
    # end


def run(x, k, y, n):
    conv_1d[(triton.cdiv(n, 8),)](x, k, y, n, num_warps=1)
