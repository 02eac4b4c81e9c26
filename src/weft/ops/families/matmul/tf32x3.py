"""Plan products of float32 by three products of tf32: opt-in, more accurate, slower."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import model
from weft.ops.families.matmul.model import Tf32x3Tile
from weft.ops.families.matmul.product import Product

PAD = 8
"""Padding words per row in shared memory."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for a product with three products of tf32."""
    made = []
    for tile in model.TF32X3_TILES:
        blocks = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn) * p.batch
        why = f"{blocks} blocks for {gpu.sms} SMs, three products of tf32"
        name = f"3xtf32, {tile.bm} x {tile.bn}"
        build = functools.partial(_plan, p, tile)
        made.append(Candidate(name, tile.time(p, blocks, gpu), why, build))
    return made


def _plan(p: Product, tile: Tf32x3Tile) -> Plan:
    a_mode, b_mode = p.a.mode(p.m, p.k), p.b.mode(p.n, p.k)
    assert a_mode is not None and b_mode is not None
    shape = (tile.bm, tile.bn, tile.bk, tile.wm, tile.wn, tile.stages)
    name = source.template("tensor", *shape, a_mode, b_mode, p.activation)
    kernel = source.kernel("matmul/tf32x3.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    pitches = (p.a.pitch(a_mode), p.b.pitch(b_mode))
    shared = 4 * tile.stages * tile.bk * (tile.bm + tile.bn + 2 * PAD)
    return p.plan(kernel, tiles, tile.threads, pitches, shared)
