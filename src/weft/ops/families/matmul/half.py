"""Plan products of 16-bit elements on tensor cores, with sums in single precision."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import half_model, model
from weft.ops.families.matmul.half_model import HalfTile
from weft.ops.families.matmul.product import Product, Split

ORDER = "mma"
"""The order of sums of tiles that are not split along K."""


def candidates(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    """The cheapest candidates for a product of float16 or bfloat16."""
    a, b = p.sides
    copied = min(a.bytes, b.bytes)
    made = []
    for tile in half_model.HALF_ANY_ROW_TILES if copied == 2 else half_model.HALF_TILES:
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits, each in model.split_k(p, tiles, tile.bk, 4 * tile.bk, gpu):
            cost = tile.time(p, copied, tiles, splits, each, gpu)
            name = f"{tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            blocks = f"{tiles * splits * p.batch} blocks for {gpu.sms} SMs"
            why = f"{blocks}, copies of {a.bytes} and {b.bytes} bytes"
            build = functools.partial(plan, p, tile, Split(splits, each, tile.bm * tile.bn))
            made.append(Candidate(name, cost, why, build, ORDER if splits == 1 else ""))
    return sorted(made, key=lambda c: c.cost)[:most]


def plan(p: Product, tile: HalfTile, split: Split) -> Plan:
    """The plan for a tile."""
    a, b = p.sides
    shape = (tile.bm, tile.bn, tile.bk, tile.wm, tile.wn, tile.stages, tile.resident)
    access = (a.k_major, a.bytes, b.k_major, b.bytes)
    words = (*shape, *access, p.activation, split.splits > 1, p.row_bias)
    name = source.template("half_tiled", source.ctype(p.out.dtype), *words)
    kernel = source.kernel("matmul/half.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    pitches = (a.pitch, b.pitch)
    return p.split_plan(kernel, tiles, tile.threads, pitches, tile.shared, split, early=True)
