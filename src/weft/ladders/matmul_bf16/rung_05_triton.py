"""
rung:   05 triton
idea:   the same in Triton: `tl.dot` and `num_stages`; on Hopper the compiler uses wgmma
precision: bf16
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _matmul(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    index, rows, columns = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = index // (8 * columns)
    height = min(8, rows - band * 8)
    rest = index % (8 * columns)
    r = (band * 8 + rest % height) * BM + tl.arange(0, BM)
    c = rest // height * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        inside_a = (r[:, None] < M) & (k[None, :] < K)
        inside_b = (k[:, None] < K) & (c[None, :] < N)
        a = tl.load(A + r[:, None].to(tl.int64) * K + k[None, :], mask=inside_a, other=0.0)
        b = tl.load(B + k[:, None].to(tl.int64) * N + c[None, :], mask=inside_b, other=0.0)
        total = tl.dot(a, b, total)
    inside = (r[:, None] < M) & (c[None, :] < N)
    tl.store(C + r[:, None].to(tl.int64) * N + c[None, :], total.to(tl.bfloat16), mask=inside)


def run(A, B, C, M, N, K):
    wide = M * N >= 1 << 20
    bm, bn = (128, 256) if wide else (64, 64)
    grid = (triton.cdiv(M, bm) * triton.cdiv(N, bn),)
    _matmul[grid](A, B, C, M, N, K, BM=bm, BN=bn, BK=64, num_warps=8 if wide else 4, num_stages=3)
