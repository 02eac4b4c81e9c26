"""Cost model of products whose sums are added in parts: tiles and seconds.

They are products of fp8, whose tiles on Hopper cost what those of 16-bit elements with half the K
cost (`pipelined_model`), and three products of tf32 for one of float32. Other constants were fitted
on an NVIDIA H200 to benchmarks/records/scaled_products.jsonl and, by hand, float_products.jsonl.
"""

from __future__ import annotations

from dataclasses import replace

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import STEP_K, PipelinedTile
from weft.ops.families.matmul.pipelined_model import TILES as PIPELINED_TILES
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
THREE_PRODUCTS = 0.9
"""Time of three products of tf32 relative to what it would be with 16-bit elements."""
SPLIT_TIME = 1.32
"""Time of a launch that splits operands relative to the bandwidth."""
SPLIT_LAUNCH = 0.6
"""Time of its launch relative to others: the product after it covers a part of the host's."""
SPLIT_LATENCY = 1.65e-6
"""Seconds from the copy of a stage with both parts to the next one into it."""
SPLIT_ALONE = 90e-9
"""Seconds of a step by which the sums of one warpgroup, which no other covers, take longer."""
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


def split_time(elements: int, gpu: Target) -> float:
    """Seconds of a launch that writes so many elements of parts of float32."""
    read_and_written = 1.5 * 4 * elements
    return SPLIT_LAUNCH * gpu.launch + SPLIT_TIME * read_and_written / gpu.bandwidth


def three_products_time(
    tile: PipelinedTile, like: Product, stages: int, turned: bool, gpu: Target
) -> float:
    """Seconds of three products of tf32, `like` one of 16-bit elements with as many bytes of K."""
    works, steps = tile.works(like) * tile.splits, cdiv(like.k, STEP_K)
    # Both parts of a stage are read for three products.
    stage = 2 * tile.stage(True, True) // 3
    time = tile.time(replace(like, k=3 * like.k), gpu, stage, turned)
    time += parts_time(tile, works, steps, False, gpu)
    dense = 3 * tile.dense(gpu)
    wait = max(0.0, SPLIT_LATENCY / (stages - 0.5) - dense) + (SPLIT_ALONE if tile.bm == 64 else 0)
    wait *= cdiv(works, gpu.sms) * cdiv(steps, tile.splits)
    return gpu.launch + THREE_PRODUCTS * (time - gpu.launch) + wait


def any_time(p: Product, gpu: Target) -> float:
    """Seconds of the kernel for any GPU."""
    tiles = cdiv(p.m, ANY_TILE) * cdiv(p.n, ANY_TILE)
    more = max(0.0, tiles / gpu.sms - 1)
    return gpu.launch + cdiv(p.k, ANY_TILE) * ANY_STEP * (1 + ANY_BESIDE * more)
