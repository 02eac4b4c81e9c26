"""
rung:   03 triton
idea:   the same in Triton: value and index in one 64-bit integer, with the first index the largest,
        so that an atomic maximum combines the results of the programs
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _best(x, y, n, steps, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    stride = tl.num_programs(0).to(tl.int64) * BLOCK
    best = tl.full([BLOCK], -9223372036854775808, tl.int64)
    for k in range(steps):
        i = start + k * stride + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=float("-inf"))
        bits = tl.where(v == 0, 0.0, v).to(tl.int32, bitcast=True)  # -0 equals 0
        order = tl.where(v != v, 0x7FC00000, bits ^ ((bits >> 31) & 0x7FFFFFFF))
        pair = (order.to(tl.int64) << 32) | (0xFFFFFFFF - i)
        best = tl.maximum(best, tl.where(i < n, pair, -9223372036854775808))
    tl.atomic_max(y, tl.max(best))


@triton.jit
def _place(y):
    tl.store(y, 0xFFFFFFFF - (tl.load(y) & 0xFFFFFFFF))


def run(x, y, n):
    y.fill_(-(2**63))
    programs = min(triton.cdiv(n, 4096), 528)
    _best[(programs,)](x, y, n, triton.cdiv(n, programs * 4096), BLOCK=4096, num_warps=16)
    _place[(1,)](y, num_warps=1)
