"""Plan products of 16-bit elements whose K, or panels of it, are in shared memory at once."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import model
from weft.ops.families.matmul.panels import model as panels_model
from weft.ops.families.matmul.panels.model import PanelTile
from weft.ops.families.matmul.product import Product, Split

WHOLE_K = 256
"""The largest K that is in shared memory at once."""
STEP = 32
"""The depths that kernels of unaligned rows are compiled for are multiples of it."""
PANEL_K = 128
"""The depth of panels of a longer K."""
LARGEST_K = 1024
"""The largest K: its panels wait for each other, so that a copy to aligned rows is faster."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """The cheapest candidates: whole vectors of a short K, or rows that begin at any element."""
    aligned = min(side.bytes for side in p.sides) == 16
    return whole(p, gpu) if aligned else unaligned(p, gpu)


def whole(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for a short K in one wave of blocks: more work hides what a longer start costs."""
    if not 0 < p.k <= WHOLE_K:
        return []
    depth = _whole_depth(p)
    made = []
    for tile in panels_model.WHOLE_TILES:
        blocks = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn) * p.batch
        resident = tile.fitting(tile.shared(depth, *p.sides), gpu)
        if blocks > gpu.sms * resident:
            continue
        cost = tile.whole_time(p, blocks, gpu)
        why = f"{blocks} blocks for {gpu.sms} SMs, {depth} of K at once"
        build = functools.partial(whole_plan, p, tile)
        made.append(Candidate(f"{tile.bm} x {tile.bn}, whole K", cost, why, build))
    return sorted(made, key=lambda c: c.cost)


def unaligned(p: Product, gpu: Target, most: int = 8) -> list[Candidate]:
    """Candidates for a product of which an operand is not read by 16 bytes."""
    a, b = p.sides
    if not 0 < p.k <= LARGEST_K:
        return []
    depth = cdiv(p.k, STEP) * STEP if p.k <= WHOLE_K else PANEL_K
    made = []
    for of in panels_model.UNALIGNED_TILES:
        tile = of.tile
        resident = tile.fitting(tile.shared(depth, a, b), gpu)
        if not resident:
            continue
        tiles = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn)
        for splits, each in model.split_k(p, tiles, depth, 2 * depth, gpu):
            blocks = tiles * p.batch * splits
            cost = of.time(p, depth, resident, blocks, splits, each, gpu)
            name = f"unaligned {tile.bm} x {tile.bn}" + (f", K in {splits}" if splits > 1 else "")
            why = f"{blocks} blocks for {gpu.sms} SMs, {depth} of K at a time"
            split = Split(splits, each, tile.bm * tile.bn)
            build = functools.partial(_plan, p, tile, depth, split, False)
            made.append(Candidate(name, cost, why, build))
    return sorted(made, key=lambda c: c.cost)[:most]


def whole_plan(p: Product, tile: PanelTile) -> Plan:
    """The plan for a tile and panels of the whole K."""
    return _plan(p, tile, _whole_depth(p), Split(1, p.k, tile.bm * tile.bn), True)


def _whole_depth(p: Product) -> int:
    return cdiv(p.k, panels_model.WHOLE_STEP) * panels_model.WHOLE_STEP


def _plan(p: Product, tile: PanelTile, depth: int, split: Split, aligned: bool) -> Plan:
    """The plan for a tile and panels of `depth`."""
    a, b = p.sides
    shape = (tile.bm, tile.bn, depth, tile.wm, tile.wn, tile.resident, a.k_major, b.k_major)
    words = (*shape, aligned, p.activation, split.splits > 1, p.row_bias)
    name = source.template("half_panels", source.ctype(p.out.dtype), *words)
    kernel = source.kernel("matmul/half.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    shared = tile.shared(depth, a, b)
    return p.split_plan(kernel, tiles, tile.threads, (a.pitch, b.pitch), shared, split, early=True)
