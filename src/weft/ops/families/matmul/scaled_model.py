"""Cost model of products of fp8: tiles and seconds.

Tiles of Hopper cost what those of 16-bit elements with half the K cost (`pipelined_model`). Other
constants were fitted on an NVIDIA H200 to benchmarks/records/scaled_products.jsonl.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import TILES as PIPELINED_TILES
from weft.ops.families.matmul.pipelined_model import PipelinedTile
from weft.ops.families.matmul.product import Product

TILES = tuple(tile for tile in PIPELINED_TILES if not tile.turns and not tile.boxes)
PART_COLUMNS = {64: 192, 128: 192, 192: 128, 256: 64}
"""Columns of a tile by its rows: each thread has two accumulators for a result."""
PART_TILES = tuple(
    tile
    for tile in TILES
    if tile.bn <= PART_COLUMNS[tile.bm] and (tile.resident == 1 or tile.bm * tile.bn <= 2048)
)
PART = 60e-9
"""Seconds that a step of a warpgroup takes longer if its sums are added in parts."""
PART_COLUMN = 2e-9
"""The same for each column of a tile whose columns have scales of their own in each step."""
ANY_TILE, ANY_THREADS = 64, 128
ANY_STEP = 2.4e-6
"""Seconds of 64 of K of a tile by the kernel for any GPU, on an SM of its own."""
ANY_BESIDE = 0.28
"""Share of that time by which another tile on the same SM adds to it."""


def parts_time(tile: PipelinedTile, works: int, steps: int, each: bool, gpu: Target) -> float:
    """Seconds by which sums in parts take longer; other warpgroups of an SM cover them.

    each  columns of a tile have scales of their own in each step
    """
    rounds = cdiv(works, gpu.sms)
    beside = min(tile.resident, rounds) * tile.bm // 64
    part = PART + (PART_COLUMN * tile.bn if each else 0)
    return part * rounds * cdiv(steps, tile.splits) / beside


def any_time(p: Product, gpu: Target) -> float:
    """Seconds of the kernel for any GPU."""
    tiles = cdiv(p.m, ANY_TILE) * cdiv(p.n, ANY_TILE)
    more = max(0.0, tiles / gpu.sms - 1)
    return gpu.launch + cdiv(p.k, ANY_TILE) * ANY_STEP * (1 + ANY_BESIDE * more)
