"""block_sparse_mm: a matrix of dense blocks (BSR) times a dense one."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Plan, Pointer, Step
from weft.ops.families.sparse import model, pipelined_blocks
from weft.ops.families.sparse.block_call import BlockCall, BlockSizes, block_call
from weft.ops.families.sparse.indices import (
    OUT,
    check_product,
    refuse_gradient_of_values,
    save_matrix,
    transposed,
)
from weft.ops.families.sparse.model import FLOAT_COLUMNS, FLOAT_ROWS, FLOAT_STAGES, HalfBlockTile

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIZES = (16, 32, 64, 128)
CAPABILITY = (8, 0)
"""The first GPUs whose tensor cores take bfloat16."""


def _candidates(request: Request) -> list[Candidate]:
    call, gpu = block_call(request), request.target
    itemsize = call.out.dtype.itemsize
    if 0 in call.out.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (call.out,)))]
    if itemsize == 2 and gpu.capability < CAPABILITY:
        raise ArgumentError(
            "weft.ops.block_sparse_mm: the tensor cores of this GPU do not take these elements",
            got=f"{call.out.dtype}, compute capability {gpu.capability[0]}.{gpu.capability[1]}",
            allowed="compute capability 8.0 and later, or float32",
        )
    cost = call.cost + model.blocks_time(
        call.count, call.size, call.out.shape[0], call.columns, itemsize, gpu
    )
    why = f"{call.count} blocks of {call.size} x {call.size} in {call.block_rows} rows"
    name, build = ("warps", _half) if itemsize == 2 else ("float32", _single)
    by_blocks = Candidate(f"rows of blocks, {name}", cost, why, functools.partial(build, call))
    by_copies = pipelined_blocks.candidates(call, gpu)
    return [by_blocks, *by_copies]


def _half(call: BlockCall) -> Plan:
    """The plan for 16-bit elements by mma."""
    tile, whole = HalfBlockTile(call.size), call.columns % 8 == 0
    words = (call.size, tile.bn, tile.wm, tile.wn, tile.stages, whole)
    name = source.template("blocks_half", source.ctype(call.out.dtype), call.index, *words)
    grid = (call.block_rows, cdiv(call.columns, tile.bn))
    return call.plan(Step(_kernel(name), grid, (tile.threads,), _arguments(call), tile.shared))


def _single(call: BlockCall) -> Plan:
    """The plan for float32."""
    rows, whole = min(call.size, FLOAT_ROWS), call.columns % 4 == 0
    name = source.template("blocks_float", call.index, call.size, rows, FLOAT_STAGES, whole)
    grid = (call.block_rows * (call.size // rows), cdiv(call.columns, FLOAT_COLUMNS))
    return call.plan(Step(_kernel(name), grid, (256,), _arguments(call)))


def _kernel(name: str) -> Kernel:
    return source.kernel("sparse/blocks.cu", name, **BlockSizes.define())


def _arguments(call: BlockCall) -> tuple[Argument, ...]:
    return (*call.pointers, Pointer(OUT), call.sizes)


def _check(crow_indices: Any, col_indices: Any, values: Any, dense: Any) -> None:
    check_product("block_sparse_mm", crow_indices, col_indices, values, dense, DTYPES, 3)
    size = values.shape[1]
    if size != values.shape[2] or size not in SIZES:
        raise ArgumentError(
            "weft.ops.block_sparse_mm: the blocks have a size that no kernel takes",
            got=f"{values.shape[1]} x {values.shape[2]}",
            allowed=", ".join(f"{s} x {s}" for s in SIZES),
        )
    if dense.shape[0] % size:
        raise ArgumentError(
            "weft.ops.block_sparse_mm: the rows of dense are no whole blocks",
            got=f"{dense.shape[0]} rows, blocks of {size}",
            allowed=f"a multiple of {size}",
        )


def _backward(ctx: Any, grad: Any) -> Any:
    refuse_gradient_of_values("block_sparse_mm", ctx.needs_input_grad[2])
    crow, col, values = ctx.saved_tensors
    back, rows, order = transposed(crow, col, ctx.inner // values.shape[1])
    turned = values[order].transpose(1, 2)
    return None, None, None, library.call("block_sparse_mm")(back, rows, turned, grad)


DEFINITIONS = (
    Definition(
        name="block_sparse_mm",
        schema="(Tensor crow_indices, Tensor col_indices, Tensor values, Tensor dense) -> Tensor",
        doc="""The product of a matrix of dense blocks (BSR) and a dense matrix [K, N].

        crow_indices, col_indices and values [n, size, size] are those of a torch.sparse_bsr tensor
        A: the result is A @ dense. Blocks have 16, 32, 64 or 128 rows and columns. float16 and
        bfloat16 are multiplied by tensor cores, float32 by ordinary multiplications; sums are
        float32. Indices are int32 or int64. There is a gradient of dense. A column index outside
        of dense fails an assertion of the kernel.
        """,
        fake=lambda crow_indices, col_indices, values, dense: dense.new_empty(
            ((crow_indices.shape[0] - 1) * values.shape[1], dense.shape[1])
        ),
        candidates=_candidates,
        check=_check,
        setup=save_matrix,
        backward=_backward,
        autocast=None,
        traceable=False,
    ),
)
