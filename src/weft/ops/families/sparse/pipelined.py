"""Plan products with a 2:4 sparse weight on Hopper: TMA and wgmma.sp."""

from __future__ import annotations

import functools

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Map, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined import (
    CAPABILITY,
    ELEMENTS,
    L2_128,
    MOST_ELEMENTS,
    SWIZZLE_64,
    operand_maps,
)
from weft.ops.families.matmul.product import Bias, Operand, Product, Side
from weft.ops.families.sparse.call import OUT, SparseCall
from weft.ops.families.sparse.model import PIPELINED_TILES, STEP_K, SparsePipelinedTile

LEAST_STAGES = 3
"""A stage is free when the products of the next one have been issued."""
WORDS = next(kind for kind in TYPES if kind.name == "s32")
"""The type of a map of metadata."""


def candidates(call: SparseCall, gpu: Target) -> list[Candidate]:
    """Candidates for Hopper; none for other GPUs."""
    size, made = call.size, []
    if gpu.capability != CAPABILITY or max(*size, call.pitch) >= MOST_ELEMENTS:
        return []
    for tile in PIPELINED_TILES:
        stages = tile.stages(gpu)
        if not tile.suits(size) or stages < LEAST_STAGES:
            continue
        works = tile.works(size) * tile.cluster
        why = f"{works} tiles for {gpu.sms} SMs, {stages} stages"
        build = functools.partial(plan, call, tile, stages, gpu)
        made.append(Candidate(tile.name, call.cost + tile.time(size, gpu), why, build))
    return made


def plan(call: SparseCall, tile: SparsePipelinedTile, stages: int, gpu: Target) -> Plan:
    """The plan for a tile."""
    size = call.size
    _, values, metadata, bias = call.operands
    whole = size.features % 8 == 0
    words = (tile.bm, tile.bn, stages, tile.cluster, whole, bias is not None)
    name = source.template("pipelined", source.ctype(call.out.dtype), *words)
    product = _product(call)
    works, tiles = tile.works(size), tile.tiles(size)
    clusters = cdiv(works, cdiv(works, gpu.sms // tile.cluster))
    side = Side(k_major=True, bytes=16, pitch=call.pitch)
    args = (
        _value_map(call, values, tile),
        *operand_maps(
            ELEMENTS[call.out.dtype], product.b, side, size.rows, product, tile.bn // tile.cluster
        ),
        _metadata_map(metadata, size.features, size.k),
        bias,
        Pointer(OUT),
        product.problem(1, size.k, tiles, size.k // 2, call.pitch),
    )
    step = Step(
        source.kernel("sparse/pipelined.cu", name), (clusters * tile.cluster,), (tile.threads,),
        args, 1024 + stages * tile.stage + tile.staging,
        (tile.cluster,) if tile.cluster > 1 else None, early=True,
    )  # fmt: skip
    return call.plan(step)


def _product(call: SparseCall) -> Product:
    """The product as a dense one sees it: C = W xᵀ, whose columns are rows of the result."""
    features, rows, k = call.size
    x, values, _, bias = call.operands
    return Product(
        1, features, rows, k, Operand(values, k // 2, 1, 0, 16),
        Operand(x, call.pitch, 1, 0, 16), None if bias is None else Bias(bias, 0, 1, 0), 1,
        features, 0, call.out, inputs=OUT,
    )  # fmt: skip


def _value_map(call: SparseCall, values: Pointer, tile: SparsePipelinedTile) -> Map:
    """The map of the kept elements. Rows behind the last one are zeros."""
    features, _, k = call.size
    return Map(values, MapRequest(
        ELEMENTS[call.out.dtype], 0, (k // 2, features), (k,), (1, 1), (STEP_K // 2, tile.bm),
        swizzle=SWIZZLE_64, l2=L2_128,
    ))  # fmt: skip


def _metadata_map(metadata: Pointer, features: int, k: int) -> Map:
    """The map of metadata: 128 words for each 64 features and 64 of K."""
    blocks = cdiv(features, 64) * cdiv(k, STEP_K)
    size = torch.int32.itemsize
    request = MapRequest(WORDS, 0, (128, blocks), (128 * size,), (1, 1), (128, 1), l2=L2_128)
    return Map(metadata, request)
