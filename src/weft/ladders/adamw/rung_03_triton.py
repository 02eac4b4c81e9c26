"""
rung:   03 triton
idea:   the same in Triton: a program has a block of elements, and the compiler vectorises
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _adamw(p, g, m, v, p2, m2, v2, n, step_size, root, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    grad, mean = tl.load(g + i, mask=inside), tl.load(m + i, mask=inside)
    mean += 0.1 * (grad - mean)
    variance = 0.999 * tl.load(v + i, mask=inside) + 0.001 * grad * grad
    value = tl.load(p + i, mask=inside) * (1 - 1e-3 * 1e-2)
    value -= step_size * mean / (tl.sqrt(variance) / root + 1e-8)
    tl.store(p2 + i, value, mask=inside)
    tl.store(m2 + i, mean, mask=inside)
    tl.store(v2 + i, variance, mask=inside)


def run(p, g, m, v, p2, m2, v2, t, n):
    step_size, root = 1e-3 / (1 - 0.9**10), (1 - 0.999**10) ** 0.5
    grid = (triton.cdiv(t * n, 1024),)
    _adamw[grid](p, g, m, v, p2, m2, v2, t * n, step_size, root, BLOCK=1024)
