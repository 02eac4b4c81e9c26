"""Cost model of weight-only products by warpgroups: tiles and modelled seconds.

Rates of copies and of tensor cores are those of `matmul` (pipelined_model.py). Conversions are
counted instructions, and `arranged` a copy.
"""

from __future__ import annotations

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import (
    CLUSTERS,
    L2_RATE,
    LATENCY,
    OVER,
    SHARE,
    SM_RATE,
    SPLIT,
    STORE,
    TURNED,
    PipelinedTile,
)
from weft.ops.families.quantised.job import Format, QuantisedJob
from weft.ops.families.quantised.model import MEMORY_TIME

STEP_K = 128
"""K of a stage."""
MOST_GROUPED = 128
"""Tokens of a tile whose groups have scales: there are two accumulators for each result."""
CONVERSION = {4: 2.6e-14, 8: 3.2e-14}
"""Seconds of an SM for a weight, by its bits: six and eight instructions for four of them, and
those that read it."""
FLUSH = 3.6e-14
"""Seconds of an SM to add the sum of a group to a result."""
ARRANGED = 1.3e-6
"""Seconds of `arranged` beside its launch and its bytes."""


def stage(tile: PipelinedTile, form: Format) -> int:
    """Bytes of a stage; see WeightTile of weight_tile.cuh."""
    return STEP_K * (tile.bm * form.bits // 8 + 2 * tile.bn)


def suits(tile: PipelinedTile, job: QuantisedJob, grouped: bool) -> bool:
    """False if a smaller tile has the same work, and if there are too few registers."""
    least = next((bn for bn in WIDTHS if bn >= job.m), WIDTHS[-1])
    rows = tile.bm == 64 or tile.bm - 64 < job.weight.n
    return rows and tile.bn <= least and (not grouped or tile.bn <= MOST_GROUPED)


def time(
    tile: PipelinedTile, job: QuantisedJob, gpu: Target, stages: int, group: int | None
) -> float:
    """Modelled seconds of both kernels; `group`: weights whose sums have scales of their own."""
    weight = job.weight
    works = cdiv(weight.n, tile.bm) * cdiv(job.m, tile.bn) * tile.splits
    steps = cdiv(cdiv(weight.k, STEP_K), tile.splits)
    most = cdiv(works, int(gpu.sms * CLUSTERS[tile.splits]))
    beside = min(tile.resident, most)
    size = stage(tile, weight.format)
    convert = CONVERSION[weight.format.bits] * tile.bm * STEP_K
    if group:
        convert += FLUSH * tile.bm * tile.bn * max(1, STEP_K // group)
    step = max(2 * tile.dense(gpu), size / SM_RATE, convert, LATENCY / (stages * beside))
    store = OVER + STORE * TURNED * tile.bm * tile.bn
    loop = most * (steps * step + store)
    moved = weight.size + int(job.dtype.itemsize) * job.m * (weight.k + weight.n)
    memory = MEMORY_TIME * moved / gpu.bandwidth
    seconds: float = 2 * gpu.launch + ARRANGED + max(loop, memory, works * steps * size / L2_RATE)
    seconds += 2 * job.m * weight.k * job.dtype.itemsize / gpu.bandwidth
    if tile.splits > 1:
        seconds += SPLIT + SHARE * tile.shares
    return seconds


WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256)
"""Tokens of a tile."""
TILES = tuple(
    PipelinedTile(bm, bn, resident, splits)
    for bm, most in {64: 256, 128: 256, 256: 64}.items()
    for bn in WIDTHS
    for resident in (1, 2)
    for splits in (1, 2, 4, 8)
    if bn <= most
    if resident == 1 or bm * bn <= 4096
    if bm // 16 % (splits // min(splits, bn // 8 & -(bn // 8))) == 0
)
