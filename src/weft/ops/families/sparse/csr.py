"""csr_mm: a sparse matrix by rows (CSR) times a dense one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch

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
    save_matrix,
    transposed,
)
from weft.ops.families.sparse.model import CSR_LONG, CSR_ROWS, CSR_WARPS

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class CsrSizes(Struct):
    """Sizes of a product."""

    rows: LongLong
    inner: Annotated[LongLong, "rows of the dense matrix"]
    columns: Annotated[Int, "of the dense matrix"]


def _vector(columns: int, itemsize: int) -> int:
    """Columns of a lane: as many as it loads at once, but no more than a warp needs."""
    vector = 1
    while 32 * vector < columns and columns % (2 * vector) == 0 and 2 * vector * itemsize <= 16:
        vector *= 2
    return vector


def _candidates(request: Request) -> list[Candidate]:
    made = Contiguous(request)
    crow, values, dense = (made.layout(i) for i in (CROW, VALUES, DENSE))
    rows, (inner, columns) = crow.shape[0] - 1, dense.shape
    out = Buffer((rows, columns), dense.dtype)
    if 0 in out.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    pointers = [made.pointer(i) for i in (CROW, COL, VALUES, DENSE)]
    vector = _vector(columns, dense.itemsize)

    def build() -> Plan:
        types = source.ctype(dense.dtype), source.ctype(crow.dtype)
        name = source.template("csr_rows", *types, vector, CSR_WARPS, CSR_ROWS, CSR_LONG)
        kernel = source.kernel("sparse/csr.cu", name, **CsrSizes.define())
        grid = (cdiv(rows, CSR_ROWS), cdiv(columns, 32 * vector))
        sizes = CsrSizes(rows, inner, columns).pack()
        args: tuple[Argument, ...] = (*pointers, Pointer(OUT), sizes)
        step = Step(kernel, grid, (32 * CSR_WARPS,), args)
        return Plan((*made.steps, step), (out,), tuple(made.scratch))

    nonzeros = values.shape[0]
    cost = made.cost + model.csr_time(
        nonzeros, rows, columns, dense.itemsize, crow.itemsize, request.target
    )
    why = f"{nonzeros} nonzeros in {rows} rows, {vector} columns a lane"
    return [Candidate("rows shared by warps", cost, why, build)]


def _check(crow_indices: Any, col_indices: Any, values: Any, dense: Any) -> None:
    check_product("csr_mm", crow_indices, col_indices, values, dense, DTYPES, 1)


def _backward(ctx: Any, grad: Any) -> Any:
    refuse_gradient_of_values("csr_mm", ctx.needs_input_grad[2])
    crow, col, values = ctx.saved_tensors
    back, rows, order = transposed(crow, col, ctx.inner)
    return None, None, None, library.call("csr_mm")(back, rows, values[order], grad)


DEFINITIONS = (
    Definition(
        name="csr_mm",
        schema="(Tensor crow_indices, Tensor col_indices, Tensor values, Tensor dense) -> Tensor",
        doc="""The product of a sparse matrix by rows (CSR) and a dense matrix [K, N].

        crow_indices, col_indices and values are those of a torch.sparse_csr tensor A: the result is
        A @ dense. Elements are float32, float16 or bfloat16, sums float32; indices are int32 or
        int64. Warps share rows of any lengths, and results do not depend on timing. There is a
        gradient of dense. A column index outside of dense fails an assertion of the kernel.
        """,
        fake=lambda crow_indices, col_indices, values, dense: dense.new_empty(
            (crow_indices.shape[0] - 1, dense.shape[1])
        ),
        candidates=_candidates,
        check=_check,
        setup=save_matrix,
        backward=_backward,
        autocast=None,
        traceable=False,
    ),
)
