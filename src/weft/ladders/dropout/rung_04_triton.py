"""
rung:   04 triton
idea:   the same in Triton, whose tl.philox returns four numbers as well: they are interleaved to be
        those of four neighbouring elements
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _drop(x, y, n, BLOCK: tl.constexpr):
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    zero = tl.zeros_like(group).to(tl.uint32)
    a, b, c, d = tl.philox(7, zero, zero, group.to(tl.uint32), zero)
    pairs = tl.join(tl.join(a, b), tl.join(c, d))  # [group, second of a pair, second pair]
    numbers = tl.reshape(tl.permute(pairs, (0, 2, 1)), (4 * BLOCK,))
    i = tl.program_id(0).to(tl.int64) * 4 * BLOCK + tl.arange(0, 4 * BLOCK)
    v = tl.load(x + i, mask=i < n)
    # From 2**31 - 64 on, the uniform number that the other rungs compare is 1/2.
    tl.store(y + i, v * tl.where(numbers < 2147483584, 2.0, 0.0), mask=i < n)


def run(x, dy, y, dx, n):
    grid = (triton.cdiv(n, 1024),)
    _drop[grid](x, y, n, BLOCK=256)
    _drop[grid](dy, dx, n, BLOCK=256)
