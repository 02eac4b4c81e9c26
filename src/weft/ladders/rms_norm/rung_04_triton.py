"""
rung:   04 triton
idea:   the same in Triton: one program per row
arrays: torch
precision: bf16
"""

import triton
import triton.language as tl


@triton.jit
def _rms_norm(x, r, w, y, s, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    i = tl.arange(0, BLOCK)
    a = tl.load(x + row + i, mask=i < n, other=0).to(tl.float32)
    b = tl.load(r + row + i, mask=i < n, other=0).to(tl.float32)
    total = (a + b).to(tl.bfloat16)
    tl.store(s + row + i, total, mask=i < n)
    v = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / n + 1e-6)
    weight = tl.load(w + i, mask=i < n, other=0).to(tl.float32)
    tl.store(y + row + i, (v * scale * weight).to(tl.bfloat16), mask=i < n)


def run(x, r, w, y, s, rows, n):
    block = triton.next_power_of_2(n)
    _rms_norm[(rows,)](x, r, w, y, s, n, BLOCK=block, num_warps=min(32, max(1, block // 2048)))
