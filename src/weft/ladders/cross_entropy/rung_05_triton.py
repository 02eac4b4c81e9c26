"""
rung:   05 triton
idea:   the same in Triton: a program holds a row; the compiler keeps it in registers
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _fused(x, t, d, loss, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = row.to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + start + i, mask=i < n, other=float("-inf")).to(tl.float32)
    most = tl.max(v, 0)
    e = tl.exp(v - most)
    total = tl.sum(e, 0)
    label = tl.load(t + row)
    at_label = tl.load(x + start + label).to(tl.float32)
    tl.store(loss + row, tl.log(total) + most - at_label)
    tl.store(d + start + i, e / total - tl.where(i == label, 1.0, 0.0), mask=i < n)


def run(x, t, d, loss, rows, n):
    block = triton.next_power_of_2(n)
    _fused[(rows,)](x, t, d, loss, n, BLOCK=block, num_warps=min(32, max(1, block // 1024)))
