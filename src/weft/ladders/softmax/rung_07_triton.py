"""
rung:   07 triton
idea:   the same in Triton: a program holds a row; the compiler keeps it in registers
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, mask=i < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + i, e / tl.sum(e, 0), mask=i < n)


def run(x, y, rows, n):
    block = triton.next_power_of_2(n)
    _softmax[(rows,)](x, y, n, BLOCK=block, num_warps=min(32, max(1, block // 1024)))
