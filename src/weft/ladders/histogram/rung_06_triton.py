"""
rung:   06 triton
idea:   Triton has a built-in histogram: a program counts a block, then adds it to global memory
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _histogram(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    mine = tl.histogram(tl.load(x + i, mask=inside, other=0), 256, mask=inside)
    tl.atomic_add(counts + tl.arange(0, 256), mine, sem="relaxed")


def run(x, counts, n):
    counts.zero_()
    _histogram[(triton.cdiv(n, 8192),)](x, counts, n, BLOCK=8192, num_warps=8)
