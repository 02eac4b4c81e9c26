"""
rung:   06 triton
idea:   the online softmax of tiles in Triton, which chooses the products and stages the copies
arrays: torch
precision: bf16
"""

import math

import triton
import triton.language as tl


@triton.jit
def _attention(q, k, v, o, m, s, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    # The last rows see the most keys: they start first.
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    row, key, element = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    places = head * m * D + row[:, None] * D + element[None, :]
    queries = tl.load(q + places, mask=row[:, None] < m, other=0.0)
    k += head * s * D
    v += head * s * D
    most = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    result = tl.zeros([BM, D], tl.float32)
    last = s - m + row
    for start in range(0, tl.minimum(s, s - m + first + BM), BN):
        at = start + key
        keys = tl.load(k + at[None, :] * D + element[:, None], mask=at[None, :] < s, other=0.0)
        scores = tl.dot(queries, keys) * scale
        seen = (at[None, :] <= last[:, None]) & (at[None, :] < s)
        scores = tl.where(seen, scores, float("-inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        base = tl.where(now == float("-inf"), 0.0, now)  # while all are -inf, their weights are 0
        weights = tl.exp2(scores - base[:, None])
        factor = tl.exp2(most - base)
        values = tl.load(v + at[:, None] * D + element[None, :], mask=at[:, None] < s, other=0.0)
        result = tl.dot(weights.to(tl.bfloat16), values, result * factor[:, None])
        total = total * factor + tl.sum(weights, 1)
        most = now
    total = tl.where(total == 0, 1.0, total)
    tl.store(o + places, (result / total[:, None]).to(tl.bfloat16), mask=row[:, None] < m)


def run(q, k, v, o, b, h, m, s, d):
    tile = 128 if m > 1 else 16
    scale = math.log2(math.e) / math.sqrt(d)
    grid = (triton.cdiv(m, tile), b * h)
    _attention[grid](q, k, v, o, m, s, scale, D=d, BM=tile, BN=64, num_warps=8 if m > 1 else 4)
