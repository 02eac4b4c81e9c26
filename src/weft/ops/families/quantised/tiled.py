"""Plan products with more tokens: tiles on tensor cores, weights converted in registers."""

from __future__ import annotations

import functools

import torch

from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.quantised import model
from weft.ops.families.quantised.job import OUTPUT, QuantisedJob
from weft.ops.families.quantised.model import QuantisedTile
from weft.ops.families.quantised.structs import QuantisedProblem

MOST = 1024
"""The most tokens: the weight is converted again for each tile of them."""


def candidates(job: QuantisedJob, gpu: Target) -> list[Candidate]:
    """Candidates for tiles whose rows are whole vectors of 16 bytes."""
    weight = job.weight
    bits = weight.k * weight.format.bits
    if job.m > MOST or weight.aligned < 16 or bits % 128:
        return []
    return [
        _candidate(job, gpu, tile, splits, each)
        for tile in model.TILES
        if tile.suits(job) and tile.shared(weight.format) <= gpu.shared_per_block
        for splits, each in tile.splits(job, gpu, COUNTERS)
    ]


def _candidate(
    job: QuantisedJob, gpu: Target, tile: QuantisedTile, splits: int, each: int
) -> Candidate:
    tiles = tile.tiles(job)
    cost = job.copy_time + tile.time(job, gpu, splits, each)
    name = f"{tile.rows} x {tile.tokens}" + (f", K in {splits}" if splits > 1 else "")
    why = f"{tiles * splits} blocks for {gpu.sms} SMs"
    return Candidate(name, cost, why, functools.partial(_plan, job, tile, splits, each))


def _plan(job: QuantisedJob, tile: QuantisedTile, splits: int, each: int) -> Plan:
    weight, tiles = job.weight, tile.tiles(job)
    types = (source.ctype(job.dtype), source.ctype(weight.scale))
    words = (tile.rows, tile.tokens, tile.fragments, tile.stages)
    flags = (weight.groups > 1, weight.has_zero)
    name = source.template("tiled", f"Weights::{weight.format.name}", *types, *words, *flags)
    kernel = source.kernel("quantised/tiled.cu", name, **QuantisedProblem.define())
    scratch = job.scratch
    joined: tuple[Argument, Argument] = (None, None)
    if splits > 1:
        joined = (Pointer(OUTPUT + 1 + len(scratch)), Counters())
        size = tiles * splits * tile.rows * tile.tokens
        scratch = (*scratch, Buffer((size,), torch.float32))
    args = (*job.arguments, *joined, job.problem(splits, each))
    shared = tile.shared(weight.format)
    step = Step(kernel, (tiles * splits,), (tile.threads,), args, shared, early=True)
    return Plan((*job.steps, step), (job.out,), scratch)
