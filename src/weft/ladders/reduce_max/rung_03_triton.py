"""
rung:   03 triton
idea:   the same in Triton: floats as integers of the same order, with NaN as the largest, so that
        an atomic maximum of integers combines the results of the programs
arrays: torch
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _largest(x, y, n, steps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    stride = tl.num_programs(0).to(tl.int64) * BLOCK
    most = tl.full([BLOCK], -2147483648, tl.int32)
    for k in range(steps):
        i = start + k * stride + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=float("-inf"))
        bits = v.to(tl.int32, bitcast=True)
        order = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        most = tl.maximum(most, tl.where(v != v, 0x7FC00000, order))
    tl.atomic_max(y, tl.max(most))


@triton.jit
def _as_float(y):
    order = tl.load(y)
    tl.store(y, order ^ ((order >> 31) & 0x7FFFFFFF))


def run(x, y, n):
    bits = y.view(torch.int32)
    bits.fill_(-(2**31))
    programs = min(triton.cdiv(n, 8192), 264)
    _largest[(programs,)](x, bits, n, triton.cdiv(n, programs * 8192), BLOCK=8192, num_warps=16)
    _as_float[(1,)](bits, num_warps=1)
