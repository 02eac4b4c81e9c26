"""Plan products with block-sparse matrices on Hopper: TMA and wgmma."""

from __future__ import annotations

import functools

from weft.device.tensor_map_encoding import MapRequest
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Map, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined import (
    CAPABILITY,
    ELEMENTS,
    L2_128,
    MOST_ELEMENTS,
    SWIZZLE_128,
    operand_maps,
)
from weft.ops.families.matmul.product import Operand, Product, Side
from weft.ops.families.sparse.block_call import BlockCall, BlockSizes
from weft.ops.families.sparse.indices import OUT
from weft.ops.families.sparse.model import PIPELINED_BLOCKS, PipelinedBlockTile


def candidates(call: BlockCall, gpu: Target) -> list[Candidate]:
    """Candidates for Hopper; none for other GPUs, nor for columns that are no whole vectors."""
    size, columns = call.out.dtype.itemsize, call.columns
    largest = max(call.count, call.inner, call.block_rows * call.size)
    if gpu.capability != CAPABILITY or size != 2 or columns % 8 or largest >= MOST_ELEMENTS:
        return []
    made = []
    for tile in PIPELINED_BLOCKS:
        if tile.size == call.size and call.count:
            time = call.cost + tile.time(call.count, call.block_rows, columns, gpu)
            why = f"{call.count} blocks, {tile.stages} stages"
            build = functools.partial(plan, call, tile)
            made.append(Candidate(tile.name, time, why, build))
    return made


def plan(call: BlockCall, tile: PipelinedBlockTile) -> Plan:
    """The plan for a tile."""
    crow, col, values, dense = call.pointers
    size, columns, kind = tile.size, call.columns, ELEMENTS[call.out.dtype]
    words = (size, tile.bn, tile.stages, tile.resident)
    name = source.template("blocks_pipelined", source.ctype(call.out.dtype), call.index, *words)
    product = Product(
        1, call.block_rows * size, columns, call.inner, Operand(values, size, 1, 0, 16),
        Operand(dense, 1, columns, 0, 16), None, columns, 1, 0, call.out, inputs=OUT,
    )  # fmt: skip
    side = Side(k_major=False, bytes=16, pitch=columns)
    right, _ = operand_maps(kind, product.b, side, columns, product, tile.bn)
    left = MapRequest(
        kind, 0, (size, size, call.count), (2 * size, 2 * size * size), (1, 1, 1), (64, size, 1),
        swizzle=SWIZZLE_128, l2=L2_128,
    )  # fmt: skip
    tiles = (call.block_rows, cdiv(columns, tile.bn))
    problem = product.problem(1, call.inner, tiles, size, columns)
    args: tuple[Argument, ...] = (
        Map(values, left), right, crow, col, Pointer(OUT), call.sizes, problem,
    )  # fmt: skip
    kernel = source.kernel("sparse/pipelined_blocks.cu", name, **BlockSizes.define())
    grid = (tiles[0] * tiles[1],)
    return call.plan(Step(kernel, grid, (tile.threads,), args, tile.shared, early=True))
