"""Plan products of 16-bit elements by warpgroups: Hopper's tensor cores read shared memory."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan
from weft.ops.core.target import Target
from weft.ops.families.matmul import half_model, model
from weft.ops.families.matmul.half_model import WARPGROUP_K, WARPGROUP_ROWS, WarpgroupTile
from weft.ops.families.matmul.product import Product

CAPABILITY = (9, 0)


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates of this kernel: none for other GPUs, nor for rows that are no whole vectors."""
    wide = min(side.bytes for side in p.sides) == 16
    if gpu.capability != CAPABILITY or not wide or p.k < WARPGROUP_K:
        return []
    made = []
    for tile in half_model.WARPGROUP_TILES:
        blocks = cdiv(p.m, WARPGROUP_ROWS) * cdiv(p.n, tile.bn) * p.batch
        work = tile.time(gpu, blocks, cdiv(p.k, WARPGROUP_K))
        cost = gpu.launch + max(work, model.traffic(p) / gpu.bandwidth)
        name = f"{WARPGROUP_ROWS} x {tile.bn}, warpgroups"
        why = f"{blocks} blocks for {gpu.sms} SMs, warpgroups"
        made.append(Candidate(name, cost, why, functools.partial(plan, p, tile)))
    return made


def plan(p: Product, tile: WarpgroupTile) -> Plan:
    """The plan for a tile."""
    a, b = p.sides
    words = (tile.bn, tile.stages, tile.producer, a.k_major, b.k_major, p.activation, p.row_bias)
    name = source.template("half_warpgroups", source.ctype(p.out.dtype), *words)
    kernel = source.kernel("matmul/warpgroup.cu", name)
    tiles = (cdiv(p.m, WARPGROUP_ROWS), cdiv(p.n, tile.bn))
    return p.plan(kernel, tiles, tile.threads, (a.pitch, b.pitch), tile.shared)
