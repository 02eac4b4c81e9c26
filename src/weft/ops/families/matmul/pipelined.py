"""Plan products of 16-bit elements whose operands tensor maps describe: Hopper's TMA and wgmma."""

from __future__ import annotations

import functools

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES, ElementType
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Map, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import STEP_K, TILES, PipelinedTile
from weft.ops.families.matmul.product import Operand, Product, Side

CAPABILITY = (9, 0)
MOST_ELEMENTS = 2**31
"""Elements along a dimension, and tiles of a launch: coordinates are ints."""
MOST_ROWS_TURNED = 32
MOST_SPLIT = 4
"""Tiles for an SM, if the blocks of clusters share their K."""
SWIZZLE_64, SWIZZLE_128, L2_128 = 2, 3, 2
"""Numbers of swizzles of 64 and 128 bytes and of fetches of 128 bytes in a tensor map."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates: none for other GPUs, nor for rows that are no whole vectors."""
    wide = min(side.bytes for side in p.sides) == 16
    largest = max(p.m, p.n, p.k, p.batch)
    if gpu.capability != CAPABILITY or not wide or largest >= MOST_ELEMENTS or p.k < STEP_K:
        return []
    made = []
    for turned in (False, True):
        product = p.transposed() if turned else p
        # A few rows are columns of the product that is turned, whose tiles may have as few.
        few = product.m <= MOST_ROWS_TURNED and product.m < product.n
        if 1 in (product.row_c, product.column_c) and not few:
            for tile in TILES:
                if tile.suits(product):
                    made += _candidate(product, tile, turned, gpu)
    return made


def _candidate(p: Product, tile: PipelinedTile, turned: bool, gpu: Target) -> list[Candidate]:
    works = tile.works(p)
    # A cluster for a part of a tile that whole tiles leave idle; boxes are parts of rows, and with
    # one tile for a block there is nothing beside their stores.
    if tile.splits > 1 and (works > MOST_SPLIT * gpu.sms or tile.splits > cdiv(p.k, STEP_K)):
        return []
    if tile.boxes and (p.column_c != 1 or p.n % 8 or works <= gpu.sms):
        return []
    a, b = p.sides
    stage = tile.stage(a.k_major, b.k_major)
    stages = tile.stages(gpu, stage, p)
    if stages < 2:
        return []
    name = f"{tile.bm} x {tile.bn}{', turned' if turned else ''}"
    name += f", {tile.resident} an SM" if tile.resident > 1 else ""
    name += ", in turns" if tile.turns else ", boxes" if tile.boxes else ""
    name += f", K in {tile.splits}" if tile.splits > 1 else ""
    why = f"{works} tiles for {gpu.sms} SMs, {stages} stages"
    build = functools.partial(plan, p, tile, stages, gpu)
    return [Candidate(f"{name}, pipelined", tile.time(p, gpu, stage, p.column_c != 1), why, build)]


def plan(p: Product, tile: PipelinedTile, stages: int, gpu: Target) -> Plan:
    """The plan for a tile."""
    a, b = p.sides
    transposed = p.column_c != 1
    whole = (p.m if transposed else p.n) % 8 == 0
    alone = tile.resident == 1
    words = (tile.bm, tile.bn, stages, *(() if alone else (tile.resident,)), tile.splits)
    stores = () if tile.boxes else (transposed, whole)
    entry = "_boxes" if tile.boxes else "_in_turns" if tile.turns else "" if alone else "_beside"
    name = source.template(
        f"pipelined{entry}", source.ctype(p.out.dtype), *words, a.k_major, b.k_major, *stores,
        p.activation, _bias_kind(p),
    )  # fmt: skip
    kernel = source.kernel("matmul/pipelined.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    works = tile.works(p)
    rounds = cdiv(works, gpu.sms * tile.resident)
    # No more blocks than the rounds need: an idle SM leaves the others power. Blocks that share an
    # SM are as many as fit: fewer of them would not be the same number for each.
    blocks = cdiv(works, rounds) if alone else min(works, gpu.sms * tile.resident)
    blocks = works * tile.splits if tile.splits > 1 else blocks
    kind = next(t for t in TYPES if t.name == ("f16" if p.out.dtype == torch.float16 else "bf16"))
    maps = (*_maps(kind, p.a, a, p.m, p, tile.bm), *_maps(kind, p.b, b, p.n, p, tile.bn))
    problem = p.problem(1, p.k, tiles, a.pitch, b.pitch)
    where: tuple[Argument, ...] = (p.bias_pointer, p.c)
    if tile.boxes:
        where = (_result_map(kind, p, tile), p.bias_pointer)
    args = (*maps, *where, problem)
    shared = 1024 + stages * tile.stage(a.k_major, b.k_major) + tile.staging
    cluster = (tile.splits,) if tile.splits > 1 else None
    step = Step(kernel, (blocks,), (tile.threads,), args, shared, cluster, early=True)
    return Plan((*p.before, step), (p.out,), p.scratch)


def _bias_kind(p: Product) -> int:
    """The kernel's number for a bias: none, for each column, for each row, for each element."""
    if p.bias is None:
        return 0
    return 1 if p.bias.m == 0 else 2 if p.bias.n == 0 else 3


def _maps(
    kind: ElementType, x: Operand, side: Side, extent: int, p: Product, along: int
) -> tuple[Map, Map]:
    """The maps of an operand, of whole tiles and of the last one: see OperandMaps of pipelined.cuh.

    The dimensions are (K, M or N, batch) if K is contiguous, else (M or N, K, batch).
    """
    inner, outer = (p.k, extent) if side.k_major else (extent, p.k)
    # A row that is the only one, and a matrix that all products share, have no strides.
    pitch = side.pitch or inner
    pitch = -(-pitch // 8) * 8 if outer == 1 else pitch
    batch = x.batch or pitch * outer
    sizes = (inner, outer, p.batch if x.batch else 1)
    boxes = [(64, rows if side.k_major else 64, 1) for rows in (along, extent % along or along)]
    whole, edge = (
        Map(x.pointer, MapRequest(
            kind, 0, sizes, (2 * pitch, 2 * batch), (1, 1, 1), box, swizzle=SWIZZLE_128, l2=L2_128,
        ))
        for box in boxes
    )  # fmt: skip
    return whole, edge


def _result_map(kind: ElementType, p: Product, tile: PipelinedTile) -> Map:
    """The map of C as (N, M, batch), of boxes that a warp stores: see box_store.cuh."""
    wide = tile.bn % 64 == 0
    request = MapRequest(
        kind, 0, (p.n, p.m, p.batch), (2 * p.n, 2 * p.m * p.n), (1, 1, 1),
        (64 if wide else 32, 16, 1), swizzle=SWIZZLE_128 if wide else SWIZZLE_64,
    )  # fmt: skip
    return Map(p.c, request)
