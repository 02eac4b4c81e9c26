"""Cost model of products of fp8: tiles and seconds.

Tiles of Hopper cost what those of 16-bit elements with half the K cost (`pipelined_model`).
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import TILES as PIPELINED_TILES
from weft.ops.families.matmul.pipelined_model import PipelinedTile
from weft.ops.families.matmul.product import Product

TILES = PIPELINED_TILES
PART_COLUMNS = {64: 192, 128: 192, 192: 128, 256: 64}
"""Columns of a tile by its rows: each thread has two accumulators for a result."""
PART_TILES = tuple(
    tile
    for tile in PIPELINED_TILES
    if tile.bn <= PART_COLUMNS[tile.bm] and (tile.resident == 1 or tile.bm * tile.bn <= 2048)
)
PART = 60e-9
"""Seconds that a step of a warpgroup takes longer if its sums are added in parts."""
ANY_TILE, ANY_THREADS = 64, 128
ANY_RATE = 0.1
"""Share of the rate of tensor cores for 16-bit elements that conversions leave."""


def parts_time(tile: PipelinedTile, works: int, steps: int, gpu: Target) -> float:
    """Seconds by which sums in parts take longer; other warpgroups of an SM cover them."""
    rounds = cdiv(works, gpu.sms)
    beside = min(tile.resident, rounds) * tile.bm // 64
    return PART * rounds * cdiv(steps, tile.splits) / beside


def any_time(p: Product, gpu: Target) -> float:
    """Seconds of the kernel for any GPU."""
    tiles = cdiv(p.m, ANY_TILE) * cdiv(p.n, ANY_TILE)
    rounds = cdiv(tiles, gpu.sms)
    work = 2.0 * ANY_TILE * ANY_TILE * max(p.k, 1)
    return gpu.launch + rounds * work / (2 * gpu.tf32 / gpu.sms * ANY_RATE)
