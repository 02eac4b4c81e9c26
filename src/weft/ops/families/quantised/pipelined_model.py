"""Cost model of weight-only products by warpgroups: tiles and modelled seconds.

The constants were fitted to times of candidates on an H200. The record of that run is lost; in
the last one of benchmarks/records/quantised.jsonl, of 16 tokens, the chosen candidates took 10 and
12 % longer than the fastest.
"""

from __future__ import annotations

import math

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import CLUSTERS, PipelinedTile
from weft.ops.families.quantised.job import Format, QuantisedJob

STEP_K = 128
"""K of a stage."""
MOST_GROUPED = 128
"""Tokens of a tile whose groups have scales: there are two accumulators for each result."""
STEP = {4: 2.6e-7, 8: 1.55e-7}
"""Seconds of a step of a warpgroup alone, by the bits of a weight: conversions, then products."""
STEP_TOKEN = 1.8e-9
"""Seconds that a token of the tile adds to it."""
SHARED_STEP = {4: 1.95e-7, 8: 1.17e-7}
"""The same of an SM for each warpgroup of 64 rows, where several share it."""
SHARED_TOKEN = 4.3e-10
"""Seconds that a token adds to that; twice with scales of groups, which are added to results."""
STAGE_RATE = 5.2e10
"""Bytes per second of the stages of an SM."""
MEMORY = 0.72
"""Share of the bandwidth that the copies of all SMs reach."""
TILE, RESULT = 1.3e-6, 1.84e-10
"""Seconds of a tile beside its steps, and of each of its results."""
SPLIT, SPLIT_RESULT = 1.45e-6, 6.8e-11
"""Seconds for each doubling of the parts of K, and for each result of a further part."""
BESIDE = 2.9e-6
"""Seconds of both kernels beside their bytes and the launch of one."""
SHARPNESS = 6.0
"""Exponent of the norm of times that overlap: the longest decides."""


def stage(tile: PipelinedTile, form: Format) -> int:
    """Bytes of a stage; see WeightTile of weight_tile.cuh."""
    return STEP_K * (tile.bm * form.bits // 8 + 2 * tile.bn)


def suits(tile: PipelinedTile, job: QuantisedJob, grouped: bool) -> bool:
    """False if a smaller tile has the same work, and if there are too few registers."""
    least = next((bn for bn in WIDTHS if bn >= job.m), WIDTHS[-1])
    rows = tile.bm == 64 or tile.bm - 64 < job.weight.n
    return rows and tile.bn <= least and (not grouped or tile.bn <= MOST_GROUPED)


def time(tile: PipelinedTile, job: QuantisedJob, gpu: Target, grouped: bool) -> float:
    """Modelled seconds of both kernels; `grouped`: groups have scales."""
    weight, bits = job.weight, job.weight.format.bits
    works = cdiv(weight.n, tile.bm) * cdiv(job.m, tile.bn) * tile.splits
    steps = cdiv(cdiv(weight.k, STEP_K), tile.splits)
    most = cdiv(works, int(gpu.sms * CLUSTERS[tile.splits]))
    beside = min(tile.resident, most)
    together = SHARED_STEP[bits] + SHARED_TOKEN * tile.bn * (2 if grouped else 1)
    step = _longest(
        STEP[bits] + STEP_TOKEN * tile.bn,
        beside * tile.bm / 64 * together,
        beside * stage(tile, weight.format) / STAGE_RATE,
    )
    results = tile.bm * tile.bn
    loop = cdiv(most, beside) * (steps * step + TILE + RESULT * results)
    moved = weight.size + int(job.dtype.itemsize) * job.m * (weight.k + weight.n)
    seconds = gpu.launch + BESIDE + _longest(loop, moved / (MEMORY * gpu.bandwidth))
    if tile.splits > 1:
        seconds += SPLIT * math.log2(tile.splits) + SPLIT_RESULT * (tile.splits - 1) * results
    return seconds


def _longest(*seconds: float) -> float:
    total = sum(s**SHARPNESS for s in seconds)
    longest: float = total ** (1 / SHARPNESS)
    return longest


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
