"""
rung:   02 triton
idea:   the same in Triton
arrays: torch
precision: bf16
"""

import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, mask=i < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + i, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=i < n)


def run(x, y, rows, n):
    block = triton.next_power_of_2(n)
    _softmax[(rows,)](x, y, n, BLOCK=block, num_warps=min(32, max(1, block // 2048)))
