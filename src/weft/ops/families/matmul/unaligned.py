"""Plan products of 16-bit elements with rows that begin at any element, in one launch."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import half_model, model
from weft.ops.families.matmul.half_model import UnalignedTile
from weft.ops.families.matmul.product import Product, Split

WHOLE_K = 256
"""The largest K that is in shared memory at once."""
STEP = 32
"""The depths that kernels are compiled for are multiples of it."""
PANEL_K = 128
"""The depth of panels of a longer K."""
LARGEST_K = 1024
"""The largest K: its panels wait for each other, so that a copy to aligned rows is faster."""


def candidates(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    """The cheapest candidates for a product of which an operand is not read by 16 bytes."""
    a, b = p.sides
    if not 0 < p.k <= LARGEST_K or min(a.bytes, b.bytes) == 16:
        return []
    depth = cdiv(p.k, STEP) * STEP if p.k <= WHOLE_K else PANEL_K
    made = []
    for tile in half_model.UNALIGNED_TILES:
        resident = tile.fitting(tile.shared(depth, a, b), gpu)
        if not resident:
            continue
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits, each in model.split_k(p, tiles, depth, 2 * depth, gpu):
            blocks = tiles * p.batch * splits
            cost = tile.time(p, depth, resident, blocks, splits, each, gpu)
            name = f"unaligned {tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{blocks} blocks for {gpu.sms} SMs, {depth} of K at a time"
            split = Split(splits, each, tile.bm * tile.bn)
            made.append(Candidate(name, cost, why, functools.partial(_plan, p, tile, depth, split)))
    return sorted(made, key=lambda c: c.cost)[:most]


def _plan(p: Product, tile: UnalignedTile, depth: int, split: Split) -> Plan:
    a, b = p.sides
    shape = (tile.bm, tile.bn, depth, tile.wm, tile.wn, tile.resident, a.k_major, b.k_major)
    words = (*shape, p.activation, split.splits > 1, p.row_bias)
    name = source.template("half_unaligned", source.ctype(p.out.dtype), *words)
    kernel = source.kernel("matmul/half.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    shared = tile.shared(depth, a, b)
    return p.split_plan(kernel, tiles, tile.threads, (a.pitch, b.pitch), shared, split)
