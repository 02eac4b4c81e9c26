"""block_sparse_mm: a matrix of dense blocks (BSR) times a dense one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.sparse import model
from weft.ops.families.sparse.call import Contiguous
from weft.ops.families.sparse.indices import (
    COL,
    CROW,
    DENSE,
    OUT,
    VALUES,
    check_product,
    refuse_gradient_of_values,
    transposed,
)
from weft.ops.families.sparse.model import (
    FLOAT_COLUMNS,
    FLOAT_ROWS,
    FLOAT_STAGES,
    HalfBlockTile,
)

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIZES = (16, 32, 64, 128)
CAPABILITY = (8, 0)
"""The first GPUs whose tensor cores take bfloat16."""


@dataclass(frozen=True)
class BlockSizes(Struct):
    """Sizes of a product."""

    inner: Annotated[LongLong, "rows of the dense matrix"]
    columns: Annotated[Int, "of the dense matrix"]


def _candidates(request: Request) -> list[Candidate]:
    made, gpu = Contiguous(request), request.target
    crow, values, dense = (made.layout(i) for i in (CROW, VALUES, DENSE))
    size, (inner, columns) = values.shape[1], dense.shape
    block_rows = crow.shape[0] - 1
    out = Buffer((block_rows * size, columns), dense.dtype)
    if 0 in out.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    if dense.itemsize == 2 and gpu.capability < CAPABILITY:
        raise ArgumentError(
            "weft.ops.block_sparse_mm: the tensor cores of this GPU do not take these elements",
            got=f"{dense.dtype}, compute capability {gpu.capability[0]}.{gpu.capability[1]}",
            allowed="compute capability 8.0 and later, or float32",
        )
    pointers = [made.pointer(i) for i in (CROW, COL, VALUES, DENSE)]
    sizes = BlockSizes(inner, columns).pack()
    args: tuple[Argument, ...] = (*pointers, Pointer(OUT), sizes)
    whole = columns * dense.itemsize % 16 == 0
    index = source.ctype(crow.dtype)

    def half() -> Step:
        tile = HalfBlockTile(size)
        words = (size, tile.bn, tile.wm, tile.wn, tile.stages, whole)
        name = source.template("blocks_half", source.ctype(dense.dtype), index, *words)
        kernel = source.kernel("sparse/blocks.cu", name, **BlockSizes.define())
        grid = (block_rows, cdiv(columns, tile.bn))
        return Step(kernel, grid, (tile.threads,), args, tile.shared)

    def single() -> Step:
        rows = min(size, FLOAT_ROWS)
        name = source.template("blocks_float", index, size, rows, FLOAT_STAGES, whole)
        kernel = source.kernel("sparse/blocks.cu", name, **BlockSizes.define())
        grid = (block_rows * (size // rows), cdiv(columns, FLOAT_COLUMNS))
        return Step(kernel, grid, (256,), args)

    def build() -> Plan:
        step = half() if dense.itemsize == 2 else single()
        return Plan((*made.steps, step), (out,), tuple(made.scratch))

    blocks = values.shape[0]
    cost = made.cost + model.blocks_time(
        blocks, size, block_rows * size, columns, dense.itemsize, gpu
    )
    why = f"{blocks} blocks of {size} x {size} in {block_rows} rows"
    name = "tensor cores" if dense.itemsize == 2 else "float32"
    return [Candidate(f"rows of blocks, {name}", cost, why, build)]


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


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    crow, col, values, dense = inputs
    ctx.save_for_backward(crow, col, values)
    ctx.inner = dense.shape[0]


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
        setup=_setup,
        backward=_backward,
        autocast=None,
        traceable=False,
    ),
)
