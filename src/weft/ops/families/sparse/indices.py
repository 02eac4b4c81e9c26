"""Indices of sparse matrices by rows (CSR): checks, and the transposed matrix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.checks import check_dtype

INDICES = (torch.int32, torch.int64)
MOST_COLUMNS = 65535 * 32
"""Columns of the dense matrix: a grid has at most 65,535 blocks along them."""
CROW, COL, VALUES, DENSE, OUT = range(5)


def check_product(
    op: str, crow: Any, col: Any, values: Any, dense: Any, dtypes: Iterable[torch.dtype], rank: int
) -> None:
    """Raise unless these are a sparse matrix, with values of this rank, and a dense one."""
    check_dtype(op, "values", values, dtypes)
    check_dtype(op, "dense", dense, dtypes)
    for name, x in (("crow_indices", crow), ("col_indices", col)):
        check_dtype(op, name, x, INDICES)
    fits = crow.dim() == col.dim() == 1 and values.dim() == rank and dense.dim() == 2
    if not fits or crow.numel() == 0 or values.shape[0] != col.shape[0]:
        raise ArgumentError(
            f"weft.ops.{op}: the tensors are no sparse matrix and a dense one",
            got=f"crow_indices {list(crow.shape)}, col_indices {list(col.shape)},"
            f" values {list(values.shape)}, dense {list(dense.shape)}",
            allowed="crow_indices [rows + 1], col_indices [n], values "
            + ("[n]" if rank == 1 else "[n, size, size]")
            + ", dense [K, N]",
        )
    if crow.dtype is not col.dtype or values.dtype is not dense.dtype:
        raise ArgumentError(
            f"weft.ops.{op}: the tensors have different dtypes",
            got=f"crow_indices {crow.dtype}, col_indices {col.dtype}, values {values.dtype},"
            f" dense {dense.dtype}",
            allowed="the same for both indices, and the same for values and dense",
        )
    if dense.shape[1] > MOST_COLUMNS:
        raise ArgumentError(
            f"weft.ops.{op}: dense has too many columns",
            got=str(dense.shape[1]),
            allowed=f"up to {MOST_COLUMNS}",
            next="multiply parts of its columns",
        )


def save_matrix(ctx: Any, inputs: Any, output: Any) -> None:
    """Save a sparse matrix, and the rows of the dense one, for the backward pass."""
    crow, col, values, dense = inputs
    ctx.save_for_backward(crow, col, values)
    ctx.inner = dense.shape[0]


def refuse_gradient_of_values(op: str, wanted: bool) -> None:
    """Raise if the gradient of the sparse matrix is wanted."""
    if wanted:
        raise ArgumentError(
            f"weft.ops.{op}: there is no gradient of values",
            allowed="a gradient of dense",
            next="pass values.detach()",
        )


def transposed(crow: Any, col: Any, columns: int) -> tuple[Any, Any, Any]:
    """(crow, col, order) of the transposed matrix; its element i is element order[i] of the given.

    The host does not wait for the GPU.
    """
    rows = torch.arange(crow.shape[0] - 1, device=col.device, dtype=col.dtype)
    rows = torch.repeat_interleave(rows, crow.diff(), output_size=col.shape[0])
    order = torch.argsort(col, stable=True)
    counts = torch.zeros(columns + 1, dtype=torch.int64, device=col.device)
    counts.scatter_add_(0, col.long() + 1, torch.ones_like(col, dtype=torch.int64))
    return counts.cumsum(0).to(crow.dtype), rows[order], order
