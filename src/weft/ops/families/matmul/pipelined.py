"""Plan products whose operands tensor maps describe: Hopper's TMA and wgmma.

Elements have 16 bits, or 32: these are multiplied in tf32, and K is contiguous in both operands.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES, ElementType
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Map, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import STEP_K, TILES, PipelinedTile
from weft.ops.families.matmul.product import Operand, Product, Side

CAPABILITY = (9, 0)
MOST_ELEMENTS = 2**31
"""Elements along a dimension, and tiles of a launch: coordinates are ints."""
MOST_ROWS_TURNED = 32
MOST_SPLIT = 4
"""Tiles for an SM, if the blocks of clusters share their K."""
STEP_BYTES, INSTRUCTION_BYTES = 128, 32
"""Bytes of K of a stage, and of an instruction."""
ORDER = "wgmma"
"""The order of sums of tiles that are not split along K."""
SWIZZLE_64, SWIZZLE_128, L2_128 = 2, 3, 2
"""Numbers of swizzles of 64 and 128 bytes and of fetches of 128 bytes in a tensor map."""


_KINDS = {kind.name: kind for kind in TYPES}
ELEMENTS = {
    torch.float16: _KINDS["f16"],
    torch.bfloat16: _KINDS["bf16"],
    torch.float32: _KINDS["tf32"],
}
"""Types of tensor maps. Copies round float32 to tf32, to the nearest; tensor cores would cut it."""


def candidates(p: Product, gpu: Target, row_sums: Pointer | None = None) -> list[Candidate]:
    """Candidates: none for other GPUs, nor for rows that are no whole vectors.

    row_sums  where the sums of the rows of A go, if they are wanted
    """
    size = p.out.dtype.itemsize
    wide = min(side.bytes for side in p.sides) == 16
    orders = size == 2 or all(side.k_major for side in p.sides)
    largest = max(p.m, p.n, p.k, p.batch)
    if gpu.capability != CAPABILITY or not wide or not orders:
        return []
    if largest >= MOST_ELEMENTS or p.k * size < INSTRUCTION_BYTES:
        return []
    made = []
    both = row_sums is None and p.stored is None
    for turned in (False, True) if both else (False,):
        product = p.transposed() if turned else p
        if 1 in (product.row_c, product.column_c) and not has_few_rows(product):
            for tile in TILES:
                if tile.suits(product):
                    made += _candidate(product, tile, turned, gpu, row_sums)
    return made


def has_few_rows(p: Product) -> bool:
    """True if the rows are better columns of the turned product, whose tiles may have as few."""
    return p.m <= MOST_ROWS_TURNED and p.m < p.n


def in_16_bits(p: Product, size: int) -> Product:
    """The product of 16-bit elements whose stages are those of elements of so many bytes.

    An instruction takes 32 bytes of K in the same time, whatever their elements are.
    """
    return replace(p, k=cdiv(p.k * size, 2), out=p.out._replace(dtype=torch.float16))


def _candidate(
    p: Product, tile: PipelinedTile, turned: bool, gpu: Target, row_sums: Pointer | None
) -> list[Candidate]:
    works = tile.works(p)
    # A cluster for a part of a tile that whole tiles leave idle; boxes are parts of rows, and with
    # one tile for a block there is nothing beside their stores.
    like = in_16_bits(p, p.out.dtype.itemsize)
    if tile.splits > 1 and (works > MOST_SPLIT * gpu.sms or tile.splits > cdiv(like.k, STEP_K)):
        return []
    # Boxes have 16-bit elements; in turns, stores of 32-bit ones lack registers.
    if (tile.boxes or tile.turns) and (p.stored or p.out.dtype).itemsize > 2:
        return []
    if tile.boxes and (p.column_c != 1 or p.n % 8 or works <= gpu.sms or p.epilogue):
        return []
    a, b = p.sides
    stage = tile.stage(a.k_major, b.k_major)
    stages = tile.stages(gpu, stage, like, tile.of_row_sums if row_sums else 0)
    if stages < 2:
        return []
    name = f"{tile.bm} x {tile.bn}{', turned' if turned else ''}"
    name += f", {tile.resident} an SM" if tile.resident > 1 else ""
    name += ", in turns" if tile.turns else ", boxes" if tile.boxes else ""
    name += f", K in {tile.splits}" if tile.splits > 1 else ""
    why = f"{works} tiles for {gpu.sms} SMs, {stages} stages"
    build = functools.partial(plan, p, tile, stages, gpu, row_sums)
    cost = tile.time(like, gpu, stage, p.column_c != 1, tile.slabs(a.k_major, b.k_major))
    cost += tile.row_sums_time(like, gpu) if row_sums else 0.0
    order = ORDER if tile.splits == 1 else ""
    return [Candidate(f"{name}, pipelined", cost, why, build, order)]


def plan(
    p: Product, tile: PipelinedTile, stages: int, gpu: Target, row_sums: Pointer | None = None
) -> Plan:
    """The plan for a tile; its one output is C."""
    a, b = p.sides
    transposed = p.column_c != 1
    whole = (p.m if transposed else p.n) % 8 == 0
    alone = tile.resident == 1
    words = (tile.bm, tile.bn, stages, *(() if alone else (tile.resident,)), tile.splits)
    stores = () if tile.boxes else (transposed, whole)
    entry = "_boxes" if tile.boxes else "_in_turns" if tile.turns else "" if alone else "_beside"
    types = (source.ctype(p.out.dtype), *(p.epilogue.types if p.epilogue else ()))
    # Kernels with a epilogue of their own store whole vectors.
    rest = (*stores, p.activation, bias_kind(p), row_sums is not None)
    rest += (source.ctype(p.stored),) if p.stored else ()
    name = source.template(
        f"pipelined{entry}", *types, *words, a.k_major, b.k_major,
        *((transposed,) if p.epilogue else rest),
    )  # fmt: skip
    kind = ELEMENTS[p.out.dtype]
    kernel = source.kernel(p.epilogue.file if p.epilogue else "matmul/pipelined.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    works = tile.works(p)
    rounds = cdiv(works, gpu.sms * tile.resident)
    # No more blocks than the rounds need: an idle SM leaves the others power. Blocks that share an
    # SM are as many as fit: fewer of them would not be the same number for each.
    blocks = cdiv(works, rounds) if alone else min(works, gpu.sms * tile.resident)
    blocks = works * tile.splits if tile.splits > 1 else blocks
    maps = (
        *operand_maps(kind, p.a, a, p.m, p, tile.bm),
        *operand_maps(kind, p.b, b, p.n, p, tile.bn),
    )
    problem = p.problem(1, p.k, tiles, a.pitch, b.pitch)
    where: tuple[Argument, ...] = (p.bias_pointer, p.c)
    if tile.boxes:
        where = (_result_map(kind, p, tile), p.bias_pointer)
    args = (*maps, *where, row_sums, problem)
    if p.epilogue:
        args = (*maps, *p.epilogue.args, p.c, problem)
    shared = 1024 + stages * tile.stage(a.k_major, b.k_major) + tile.staging
    shared += tile.of_row_sums if row_sums else 0
    cluster = (tile.splits,) if tile.splits > 1 else None
    step = Step(kernel, (blocks,), (tile.threads,), args, shared, cluster, early=True)
    out = p.out._replace(dtype=p.stored or p.out.dtype)
    return Plan((*p.before, step), (out,), p.scratch)


def bias_kind(p: Product) -> int:
    """The kernel's number for a bias: none, for each column, for each row, for each element."""
    if p.bias is None:
        return 0
    return 1 if p.bias.m == 0 else 2 if p.bias.n == 0 else 3


def operand_maps(
    kind: ElementType, x: Operand, side: Side, extent: int, p: Product, along: int
) -> tuple[Map, Map]:
    """The maps of an operand, of whole tiles and of the last one: see OperandMaps of pipelined.cuh.

    The dimensions are (K, M or N, batch) if K is contiguous, else (M or N, K, batch).
    """
    inner, outer = (p.k, extent) if side.k_major else (extent, p.k)
    # A row that is the only one, and a matrix that all products share, have no strides.
    pitch, vector = side.pitch or inner, 16 // kind.size
    pitch = cdiv(pitch, vector) * vector if outer == 1 else pitch
    batch = x.batch or pitch * outer
    sizes = (inner, outer, p.batch if x.batch else 1)
    deep = STEP_BYTES // kind.size
    boxes = [(deep, rows if side.k_major else 64, 1) for rows in (along, extent % along or along)]
    strides = (kind.size * pitch, kind.size * batch)
    whole, edge = (
        Map(
            x.pointer,
            MapRequest(kind, 0, sizes, strides, (1, 1, 1), box, swizzle=SWIZZLE_128, l2=L2_128),
        )
        for box in boxes
    )
    return whole, edge


def _result_map(kind: ElementType, p: Product, tile: PipelinedTile) -> Map:
    """The map of C as (N, M, batch), of boxes that a warp stores: see box_store.cuh."""
    wide = tile.bn % 64 == 0
    request = MapRequest(
        kind, 0, (p.n, p.m, p.batch), (2 * p.n, 2 * p.m * p.n), (1, 1, 1),
        (64 if wide else 32, 16, 1), swizzle=SWIZZLE_128 if wide else SWIZZLE_64,
    )  # fmt: skip
    return Map(p.c, request)
