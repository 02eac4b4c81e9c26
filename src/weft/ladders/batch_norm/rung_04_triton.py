"""
rung:   04 triton
idea:   one program per channel in Triton: each lane keeps moments, which are joined at the end
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _batch_norm(x, w, b, y, N, C, S, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total, squares = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    # Sums relative to the channel's first element: a large mean costs no digits.
    shift = tl.load(x + c * S)
    for begin in range(0, N * S, BLOCK):
        j = begin + i
        v = tl.load(x + (j // S * C + c) * S + j % S, mask=j < N * S, other=0) - shift
        v = tl.where(j < N * S, v, 0)
        total += v
        squares += v * v
    away = tl.sum(total, 0) / (N * S)
    variance = tl.sum(squares, 0) / (N * S) - away * away
    middle, scale = shift + away, tl.rsqrt(variance + 1e-5)
    weight, bias = tl.load(w + c), tl.load(b + c)
    for begin in range(0, N * S, BLOCK):
        j = begin + i
        at = (j // S * C + c) * S + j % S
        v = tl.load(x + at, mask=j < N * S)
        tl.store(y + at, (v - middle) * scale * weight + bias, mask=j < N * S)


def run(x, w, b, y, N, C, S):
    _batch_norm[(C,)](x, w, b, y, N, C, S, BLOCK=2048, num_warps=8)
