"""
rung:   13 triton
idea:   the same in Triton, without tensor cores: `tl.dot` with input_precision="ieee"
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _matmul(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(1) * BM + tl.arange(0, BM)
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(
            A + r[:, None].to(tl.int64) * K + k[None, :],
            mask=(r[:, None] < M) & (k[None, :] < K),
            other=0.0,
        )
        b = tl.load(
            B + k[:, None].to(tl.int64) * N + c[None, :],
            mask=(k[:, None] < K) & (c[None, :] < N),
            other=0.0,
        )
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(
        C + r[:, None].to(tl.int64) * N + c[None, :],
        total,
        mask=(r[:, None] < M) & (c[None, :] < N),
    )


def run(A, B, C, M, N, K):
    grid = triton.cdiv(N, 64), triton.cdiv(M, 64)
    _matmul[grid](A, B, C, M, N, K, BM=64, BN=64, BK=16, num_warps=4)
