"""Plan products with more tokens on Hopper: TMA, weights converted in registers, wgmma."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Map, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined import (
    CAPABILITY,
    ELEMENTS,
    L2_128,
    MOST_ELEMENTS,
    MOST_SPLIT,
    SWIZZLE_64,
    SWIZZLE_128,
    bias_kind,
    in_16_bits,
)
from weft.ops.families.matmul.pipelined_model import PipelinedTile
from weft.ops.families.matmul.product import Bias, Operand, Product
from weft.ops.families.quantised import pipelined_model as model
from weft.ops.families.quantised.job import BIAS, OUTPUT, WEIGHT, QuantisedJob, QuantisedWeight
from weft.ops.families.quantised.pipelined_model import STEP_K
from weft.ops.families.quantised.structs import QuantisedProblem

LEAST, MOST = 9, 1024
"""Tokens: fewer are memory's alone, and the weight is converted again for each tile of them."""
LEAST_STAGES = 3
"""A stage is free when the products of the next one have been issued."""
BLOCKS = 16
"""Blocks of 128 of K that a block of threads arranges."""


class Order(NamedTuple):
    """The order of tokens, and sums that have scales of their own.

    units    eights of a lane that are neighbours; see arranged.cu
    grouped  True if sums of 32 units of K are scaled
    zero     True if they have zero points
    """

    units: int
    grouped: bool
    zero: bool

    @property
    def group(self) -> int | None:
        return 32 * self.units if self.grouped else None


def order_of(weight: QuantisedWeight) -> Order | None:
    """The order for a weight; None for groups that are no multiples of 32."""
    for units in (4, 2, 1):
        if weight.groups == 1 or weight.group % (32 * units) == 0:
            return Order(units, weight.groups > 1 or weight.has_zero, weight.has_zero)
    return None


def candidates(job: QuantisedJob, gpu: Target) -> list[Candidate]:
    """Candidates for Hopper; none for other GPUs, nor for rows that are no whole vectors."""
    weight, order = job.weight, order_of(job.weight)
    if gpu.capability != CAPABILITY or order is None or not LEAST <= job.m <= MOST:
        return []
    bits, largest = weight.k * weight.format.bits, max(weight.n, weight.k)
    if weight.aligned < 16 or bits % 128 or largest >= MOST_ELEMENTS:
        return []
    return [
        candidate
        for tile in model.TILES
        if model.suits(tile, job, order.grouped)
        for candidate in _candidates(job, tile, order, gpu)
    ]


def _candidates(
    job: QuantisedJob, tile: PipelinedTile, order: Order, gpu: Target
) -> list[Candidate]:
    p = _product(job)
    works = tile.works(p)
    stages = tile.stages(gpu, model.stage(tile, job.weight.format), in_16_bits(p, 1))
    if stages < LEAST_STAGES or tile.splits > cdiv(p.k, STEP_K):
        return []
    if tile.splits > 1 and works > MOST_SPLIT * gpu.sms:
        return []
    name = f"{tile.bm} x {tile.bn}"
    name += f", {tile.resident} an SM" if tile.resident > 1 else ""
    name += f", K in {tile.splits}" if tile.splits > 1 else ""
    why = f"{works} tiles for {gpu.sms} SMs, {stages} stages"
    cost = job.copy_time + model.time(tile, job, gpu, order.grouped)
    build = functools.partial(plan, job, tile, order, stages, gpu)
    return [Candidate(f"{name}, pipelined", cost, why, build)]


def plan(job: QuantisedJob, tile: PipelinedTile, order: Order, stages: int, gpu: Target) -> Plan:
    """The plan for a tile: tokens are arranged, then multiplied."""
    weight, p = job.weight, _product(job)
    alone = tile.resident == 1
    form, types = (
        f"Weights::{weight.format.name}",
        (source.ctype(job.dtype), source.ctype(weight.scale)),
    )
    words = (tile.bm, tile.bn, stages, *(() if alone else (tile.resident,)), tile.splits)
    whole = p.m % 8 == 0
    name = source.template(
        "pipelined" if alone else "pipelined_beside", form, *types, *words, *order, whole,
        bias_kind(p),
    )  # fmt: skip
    kernel = source.kernel("quantised/pipelined.cu", name, **QuantisedProblem.define())
    before, arranged, sums, scratch = _arranged(job, order)
    pitch = job.m + job.m % 2
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    works = tile.works(p)
    blocks = cdiv(works, cdiv(works, gpu.sms)) if alone else min(works, gpu.sms * tile.resident)
    blocks = works * tile.splits if tile.splits > 1 else blocks
    args = (
        _weight_map(weight, tile), _token_map(job, arranged, tile), *weight.pointers[1:], sums,
        pitch, p.bias_pointer, p.c, job.problem(), p.problem(1, p.k, tiles, weight.row, weight.k),
    )  # fmt: skip
    shared = 1024 + stages * model.stage(tile, weight.format) + tile.staging
    cluster = (tile.splits,) if tile.splits > 1 else None
    step = Step(kernel, (blocks,), (tile.threads,), args, shared, cluster, early=True)
    return Plan((*job.steps, before, step), (job.out,), scratch)


def _product(job: QuantisedJob) -> Product:
    """The product as a dense one sees it: C = W xᵀ, whose columns are rows of the result."""
    weight = job.weight
    bias = None if job.bias is None else Bias(Pointer(BIAS), 0, job.bias, 0)
    return Product(
        1, weight.n, job.m, weight.k,
        Operand(Pointer(WEIGHT), weight.row, 1, 0, 16, job.constant),
        Operand(job.x, job.pitch, 1, 0, 16), bias, 1, weight.n, 0, job.out, inputs=OUTPUT,
    )  # fmt: skip


def _arranged(
    job: QuantisedJob, order: Order
) -> tuple[Step, Pointer, Argument, tuple[Buffer, ...]]:
    """The launch that arranges tokens; where they and their sums are; all scratch."""
    weight, at = job.weight, OUTPUT + 1 + len(job.scratch)
    blocks, pitch = cdiv(weight.k, STEP_K), job.m + job.m % 2
    scratch = (*job.scratch, Buffer((job.m, blocks * STEP_K), job.dtype))
    sums: Argument = None
    if order.zero:
        sums = Pointer(at + 1)
        rows = blocks * STEP_K // (32 * order.units)
        scratch = (*scratch, Buffer((rows, pitch), torch.float32))
    name = source.template(
        "arranged", f"Weights::{weight.format.name}", source.ctype(job.dtype), order.units,
        order.zero,
    )  # fmt: skip
    kernel = source.kernel("quantised/arranged.cu", name, **QuantisedProblem.define())
    args = (job.x, Pointer(at), sums, pitch, job.problem())
    step = Step(kernel, (cdiv(job.m * blocks, BLOCKS),), (256,), args, early=True)
    return step, Pointer(at), sums, scratch


def _weight_map(weight: QuantisedWeight, tile: PipelinedTile) -> Map:
    """The map of the weight's bytes. Those outside are zeros."""
    bits, four = weight.format.bits, weight.format.bits == 4
    request = MapRequest(
        TYPES[0], 0, (weight.k * bits // 8, weight.n), (weight.row,), (1, 1),
        (STEP_K * bits // 8, tile.bm), swizzle=SWIZZLE_64 if four else SWIZZLE_128, l2=L2_128,
    )  # fmt: skip
    return Map(Pointer(WEIGHT), request)


def _token_map(job: QuantisedJob, arranged: Pointer, tile: PipelinedTile) -> Map:
    """The map of the arranged tokens, whose rows are whole steps of K."""
    inner = cdiv(job.weight.k, STEP_K) * STEP_K
    return Map(arranged, MapRequest(
        ELEMENTS[job.dtype], 0, (inner, job.m), (2 * inner,), (1, 1), (64, tile.bn),
        swizzle=SWIZZLE_128, l2=L2_128,
    ))  # fmt: skip
