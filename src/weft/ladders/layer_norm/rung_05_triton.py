"""
rung:   05 triton
idea:   the same in Triton: one program per row
arrays: torch
precision: bf16
"""

import triton
import triton.language as tl


@triton.jit
def _layer_norm(x, w, b, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row + i, mask=i < n, other=0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    centred = tl.where(i < n, v - mean, 0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    weight = tl.load(w + i, mask=i < n, other=1).to(tl.float32)
    bias = tl.load(b + i, mask=i < n, other=0).to(tl.float32)
    tl.store(y + row + i, (centred * rstd * weight + bias).to(tl.bfloat16), mask=i < n)


def run(x, w, b, y, rows, n):
    block = triton.next_power_of_2(n)
    _layer_norm[(rows,)](x, w, b, y, n, BLOCK=block, num_warps=min(32, max(1, block // 2048)))
