"""
rung:   05 triton
idea:   the same in Triton, with the same polynomials: 1 + erf(x) has no digits left for negative x,
        and Triton has no function for the tail
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _normal(v):
    """The integral of the normal distribution up to v, and exp(-v v / 2)."""
    z = v * v
    e = tl.exp2(-0.72134752 * z)
    r = 1 / (1 + 0.5 * tl.abs(v))
    p = 0.37607484 - 0.12840834 * r
    p = p * r - 0.34358843
    p = p * r + 0.007379093
    p = p * r + 0.038020475
    p = p * r + 0.15067028
    p = p * r + 0.1994313
    p = p * r + 0.1994712
    tail = p * r * e
    q = 0.00011348637 - 7.654206e-06 * z
    q = q * z - 0.00118633
    q = q * z + 0.009973323
    q = q * z - 0.06649036
    q = q * z + 0.39894228
    return tl.where(z < 1, 0.5 + v * q, tl.where(v > 0, 1 - tail, tail)), e


@triton.jit
def _forward(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    below, _ = _normal(v)
    tl.store(y + i, v * below, mask=i < n)


@triton.jit
def _backward(x, dy, dx, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    below, e = _normal(v)
    g = tl.load(dy + i, mask=i < n)
    tl.store(dx + i, g * (below + v * 0.3989423 * e), mask=i < n)


def run(x, dy, y, dx, n):
    grid = (triton.cdiv(n, 1024),)
    _forward[grid](x, y, n, BLOCK=1024)
    _backward[grid](x, dy, dx, n, BLOCK=1024)
