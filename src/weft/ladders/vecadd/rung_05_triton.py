"""
rung:   05 triton
idea:   the same in Triton: a program adds a block of elements; the compiler vectorises
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _add(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(c + i, tl.load(a + i, mask=inside) + tl.load(b + i, mask=inside), mask=inside)


def run(a, b, c, n):
    _add[(triton.cdiv(n, 1024),)](a, b, c, n, BLOCK=1024)
