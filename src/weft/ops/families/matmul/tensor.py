"""Plans tensor-core products with three tf32 products: opt-in, more accurate, slower."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.product import Product

TILES = ((64, 128, 16, 32, 32, 3, 0.25), (64, 64, 16, 32, 16, 3, 0.20))
"""BM, BN, BK, WM, WN and stages of a tile, and the share of the tensor cores' tf32 rate."""
PAD = 8
"""Padding words per row in shared memory."""


def tensor(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for a product with three products of tf32."""
    candidates = []
    for tile in TILES:
        blocks = cdiv(p.m, tile[0]) * cdiv(p.n, tile[1]) * p.batch
        work = 6 * tile[0] * tile[1] * max(p.k, 1) * cdiv(blocks, gpu.sms)
        time = gpu.launch + 2e-6 + work / (gpu.tf32 / gpu.sms * tile[6])
        why = f"{blocks} blocks for {gpu.sms} SMs, three products of tf32"
        build = functools.partial(_plan, p, tile[:6])
        candidates.append(Candidate(f"3xtf32, {tile[0]} x {tile[1]}", time, why, build))
    return candidates


def _plan(p: Product, tile: tuple[int, ...]) -> Plan:
    bm, bn, bk, wm, wn, stages = tile
    a_mode, b_mode = p.a.mode(p.m, p.k), p.b.mode(p.n, p.k)
    assert a_mode is not None and b_mode is not None
    tiles = (cdiv(p.m, bm), cdiv(p.n, bn))
    shape = ", ".join(map(str, (*tile, a_mode, b_mode, p.activation)))
    kernel = source.kernel("matmul/matmul_3xtf32.cu", f"tensor<{shape}>")
    problem = p.problem(1, max(p.k, 1), tiles, p.a.pitch(a_mode), p.b.pitch(b_mode))
    args = (p.a.pointer, p.b.pointer, p.bias[0] if p.bias else None, p.c, problem)
    shared = 4 * stages * bk * (bm + bn + 2 * PAD)
    step = Step(kernel, p.grid(tiles[0] * tiles[1]), (bm // wm * (bn // wn) * 32,), args, shared)
    return Plan((*p.before, step), (p.out,), p.scratch)
