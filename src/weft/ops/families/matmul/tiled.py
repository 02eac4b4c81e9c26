"""Plan products of float32 with one tile of C per block, and split K if there are few tiles."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import model
from weft.ops.families.matmul.model import GemmTile
from weft.ops.families.matmul.product import Product, Split

ORDER = "fma"
"""The order of sums of tiles that are not split along K."""


def candidates(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    """The cheapest candidates for a product of float32."""
    made = []
    modes = p.a.mode(p.m, p.k), p.b.mode(p.n, p.k)
    assert modes[0] is not None and modes[1] is not None
    for tile in (t for t in model.GEMM_TILES if t.fits(modes[0], modes[1])):
        bm, bn, bk = tile.shape[:3]
        tiles = cdiv(p.m, bm) * cdiv(p.n, bn)
        for splits, each in model.split_k(p, tiles, bk, 4 * bk, gpu):
            cost = tile.time(p, tiles, splits, each, gpu)
            name = f"{bm} x {bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{tiles * p.batch * splits} blocks for {gpu.sms} SMs"
            split = Split(splits, each, bm * bn)
            build = functools.partial(_plan, p, tile, split, modes[0], modes[1])
            made.append(Candidate(name, cost, why, build, ORDER if splits == 1 else ""))
    return sorted(made, key=lambda c: c.cost)[:most]


def _plan(p: Product, tile: GemmTile, split: Split, a_mode: int, b_mode: int) -> Plan:
    words = (*tile.shape, a_mode, b_mode, p.activation, split.splits > 1)
    kernel = source.kernel("matmul/tiled.cu", source.template("tiled", *words))
    tiles = (cdiv(p.m, tile.shape.bm), cdiv(p.n, tile.shape.bn))
    pitches = (p.a.pitch(a_mode), p.b.pitch(b_mode))
    shared = tile.shared(a_mode, b_mode)
    return p.split_plan(kernel, tiles, tile.shape.threads, pitches, shared, split)
