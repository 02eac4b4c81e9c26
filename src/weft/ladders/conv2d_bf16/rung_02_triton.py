"""
rung:   02 triton
idea:   the implicit product in Triton, from images as they are: rows are filters and columns are
        pixels, so that neighbours in a tile are neighbours in memory; a tap moves the addresses of
        all pixels by the same distance, and a mask holds what lies outside of the image. Only the
        weights are copied first, so that those of a tap are neighbours
precision: bf16
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _conv2d(x, w, y, pixels, C, H, W, K, R, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    k = tl.program_id(1) * BM + tl.arange(0, BM)
    pixel = tl.program_id(0) * BN + tl.arange(0, BN)
    n, at = (pixel // (H * W)).to(tl.int64), pixel % (H * W)
    i, j = at // W, at % W
    total = tl.zeros((BM, BN), tl.float32)
    for tap in range(R * R):
        row, column = i + tap // R - R // 2, j + tap % R - R // 2
        inside = (row >= 0) & (row < H) & (column >= 0) & (column < W) & (pixel < pixels)
        source = x + n * C * H * W + row * W + column
        for c0 in range(0, C, BK):
            c = c0 + tl.arange(0, BK)
            filters = w + (tap * K + k[:, None]) * C + c[None, :]
            a = tl.load(filters, mask=(k[:, None] < K) & (c[None, :] < C), other=0.0)
            windows = source[None, :] + c[:, None] * (H * W)
            b = tl.load(windows, mask=inside[None, :] & (c[:, None] < C), other=0.0)
            total = tl.dot(a, b, total)
    to = y + (n * K * H * W + at)[None, :] + k[:, None] * (H * W)
    tl.store(to, total.to(tl.bfloat16), mask=(k[:, None] < K) & (pixel[None, :] < pixels))


def run(x, w, y, N, C, H, W, K, R):
    wide = N * K * H * W >= 1 << 20
    bm, bn = (64 if K <= 64 else 128, 128) if wide else (32, 32)
    grid = (triton.cdiv(N * H * W, bn), triton.cdiv(K, bm))
    taps = w.permute(2, 3, 0, 1).contiguous()
    _conv2d[grid](
        x, taps, y, N * H * W, C, H, W, K, R, BM=bm, BN=bn, BK=32, num_warps=4, num_stages=3
    )
