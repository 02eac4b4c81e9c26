"""
rung:   07 triton
idea:   the same in Triton: programs add long pieces and combine their sums with an atomic
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _reduce(x, y, n, steps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    stride = tl.num_programs(0).to(tl.int64) * BLOCK
    sums = tl.zeros([BLOCK], tl.float32)
    for k in range(steps):
        i = start + k * stride + tl.arange(0, BLOCK)
        sums += tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(y, tl.sum(sums))


def run(x, y, n):
    y.zero_()
    programs = min(triton.cdiv(n, 8192), 264)
    _reduce[(programs,)](x, y, n, triton.cdiv(n, programs * 8192), BLOCK=8192, num_warps=16)
