"""embedding: rows of a table by index, and the deterministic gradient of the table."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.embedding import plans
from weft.ops.families.embedding.model import TABLE_ROWS, is_listed

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INDICES = (torch.int64, torch.int32)


def _check(input: Any, weight: Any, padding_idx: int | None) -> None:
    for name, x, allowed in (("input", input, INDICES), ("weight", weight, DTYPES)):
        check_dtype("embedding", name, x, allowed)
    if weight.dim() != 2:
        raise ArgumentError(
            f"weft.ops.embedding: weight has {weight.dim()} dimensions, expected 2",
            allowed="[rows, columns]",
        )
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ArgumentError(
            f"weft.ops.embedding: padding_idx is {padding_idx}, expected {-rows} to {rows - 1}",
            got=f"weight of shape {tuple(weight.shape)}",
        )
    if input.numel() and not rows:
        raise ArgumentError(
            f"weft.ops.embedding: weight has shape {tuple(weight.shape)}, expected at least one row"
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    index, weight, padding = inputs
    ctx.save_for_backward(index)
    ctx.rows = weight.shape[0]
    # No index is -1, so it stands for no padding.
    ctx.padding = -1 if padding is None else padding % max(ctx.rows, 1)


def _backward(ctx: Any, grad: Any) -> Any:
    (index,) = ctx.saved_tensors
    flat = grad.reshape(-1, grad.shape[-1]) if grad.numel() else grad.new_empty((0, grad.shape[-1]))
    if is_listed(index.numel(), ctx.rows) or ctx.rows <= TABLE_ROWS:
        call = library.call("embedding_backward_unsorted")
        return None, call(flat, index.reshape(-1), ctx.rows, ctx.padding), None
    keys, order = torch.sort(index.reshape(-1), stable=True)
    call = library.call("embedding_backward")
    return None, call(flat, keys.long(), order, ctx.rows, ctx.padding), None


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, keys, order, _, ctx.padding = inputs
    ctx.save_for_backward(keys, order)


def _second(ctx: Any, v: Any) -> Any:
    keys, order = ctx.saved_tensors
    rows = _rows(ctx, v, keys)
    return torch.empty_like(rows).index_copy(0, order, rows), None, None, None, None


def _setup_unsorted(ctx: Any, inputs: Any, output: Any) -> None:
    _, index, _, ctx.padding = inputs
    ctx.save_for_backward(index)


def _second_unsorted(ctx: Any, v: Any) -> Any:
    return _rows(ctx, v, *ctx.saved_tensors), None, None, None


def _rows(ctx: Any, v: Any, index: Any) -> Any:
    """The gradient is linear in that of the result: the same rows of its gradient."""
    rows = library.call("embedding")(index, v.contiguous(), None)
    return rows.masked_fill((index == ctx.padding).unsqueeze(1), 0)


GROUP = "attention, embedding"
DEFINITIONS = (
    Definition(
        name="embedding",
        schema="(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor",
        doc="""The rows of weight that input has the indices of, as torch.nn.functional.embedding.

        An index that is no row fails an assertion of the kernel, as in PyTorch; on the simulated
        GPU that is weft.AssertFailed. The gradient of weight is deterministic: the
        rows of each index are added in an order that follows from the positions, in float32;
        torch.sort orders more than 24,576 positions of more than 96 rows. That of the row
        padding_idx is 0.
        """,
        fake=lambda input, weight, padding_idx=None: weight.new_empty(
            (*input.shape, weight.shape[1])
        ),
        candidates=plans.gather,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=None,
    ),
    Definition(
        name="embedding_backward",
        schema="(Tensor dy, Tensor keys, Tensor order, int rows, int padding_idx) -> Tensor",
        doc="The gradient of embedding's weight, from sorted indices and their positions.",
        fake=lambda dy, keys, order, rows, padding_idx: dy.new_empty((rows, dy.shape[1])),
        candidates=plans.sorted_gradient,
        setup=_setup_backward,
        backward=_second,
        autocast=None,
        public=False,
    ),
    Definition(
        name="embedding_backward_unsorted",
        schema="(Tensor dy, Tensor index, int rows, int padding_idx) -> Tensor",
        doc="The gradient of embedding's weight, from indices in any order: few, or of few rows.",
        fake=lambda dy, index, rows, padding_idx: dy.new_empty((rows, dy.shape[1])),
        candidates=plans.unsorted_gradient,
        setup=_setup_unsorted,
        backward=_second_unsorted,
        autocast=None,
        public=False,
    ),
)
