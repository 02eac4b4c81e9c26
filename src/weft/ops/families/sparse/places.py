"""sparse_select and sparse_expand: kept elements of 2:4 sparse matrices, from and to whole rows."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.sparse import model
from weft.ops.families.sparse.call import Contiguous

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
THREADS = 256
BLOCK = 64
"""Rows, and elements along K, that share 128 words of metadata."""
SIXTEEN = 16
"""Elements along K of a half word of metadata."""
OUT = 2


def check_metadata(op: str, name: str, tensor: Any, metadata: Any, k: int) -> None:
    """Raise unless metadata are those of a matrix of the rows of `tensor`, with K elements each."""
    if tensor.dim() != 2 or k == 0 or k % SIXTEEN:
        raise ArgumentError(
            f"weft.ops.{op}: {name} has a shape of no 2:4 sparse matrix",
            got=str(list(tensor.shape)),
            allowed="two dimensions; K, the whole length of a row, is a multiple of 16",
        )
    shape = (cdiv(tensor.shape[0], BLOCK), cdiv(k, BLOCK), 128)
    if metadata.dtype is not torch.int32 or tuple(metadata.shape) != shape:
        raise ArgumentError(
            f"weft.ops.{op}: metadata does not fit {name}",
            got=f"{list(metadata.shape)} {metadata.dtype}, {name} {list(tensor.shape)}",
            allowed=f"{list(shape)} torch.int32",
            next="make both by weft.sparse.compress(weight)",
        )


def _candidates(expand: bool, request: Request) -> list[Candidate]:
    made = Contiguous(request)
    given = made.layout(0)
    rows, columns = given.shape
    out = Buffer((rows, columns * 2 if expand else columns // 2), given.dtype)
    if rows == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    pointer, metadata = made.pointer(0), made.pointer(1)
    sixteens = (columns * 2 if expand else columns) // SIXTEEN

    def build() -> Plan:
        name = source.template("places", source.ctype(given.dtype), expand)
        both = (pointer, Pointer(OUT)) if expand else (Pointer(OUT), pointer)
        args = (metadata, *both, rows, sixteens)
        grid = (cdiv(rows * sixteens, THREADS),)
        step = Step(source.kernel("sparse/places.cu", name), grid, (THREADS,), args, early=True)
        return Plan((*made.steps, step), (out,), tuple(made.scratch))

    cost = made.cost + model.places_time(rows * sixteens * SIXTEEN, given.itemsize, request.target)
    return [Candidate("16 of K a thread", cost, f"{rows * sixteens} threads", build)]


def _check_expand(values: Any, metadata: Any) -> None:
    check_dtype("sparse_expand", "values", values, DTYPES)
    check_metadata("sparse_expand", "values", values, metadata, 2 * values.shape[-1])


def _check_select(whole: Any, metadata: Any) -> None:
    check_dtype("sparse_select", "whole", whole, DTYPES)
    check_metadata("sparse_select", "whole", whole, metadata, whole.shape[-1])


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[1])


def _backward(op: str, ctx: Any, grad: Any) -> Any:
    """Each of the two is the transpose of the other."""
    (metadata,) = ctx.saved_tensors
    return library.call(op)(grad, metadata), None


DEFINITIONS = (
    Definition(
        name="sparse_select",
        schema="(Tensor whole, Tensor metadata) -> Tensor",
        doc="The elements [N, K / 2] of whole [N, K] that metadata of a 2:4 sparse matrix keeps.",
        fake=lambda whole, metadata: whole.new_empty((whole.shape[0], whole.shape[1] // 2)),
        candidates=functools.partial(_candidates, False),
        check=_check_select,
        setup=_setup,
        backward=functools.partial(_backward, "sparse_expand"),
        autocast=None,
        public=False,
    ),
    Definition(
        name="sparse_expand",
        schema="(Tensor values, Tensor metadata) -> Tensor",
        doc="The 2:4 sparse matrix [N, K] with these kept elements [N, K / 2], zeros included.",
        fake=lambda values, metadata: values.new_empty((values.shape[0], values.shape[1] * 2)),
        candidates=functools.partial(_candidates, True),
        check=_check_expand,
        setup=_setup,
        backward=functools.partial(_backward, "sparse_select"),
        autocast=None,
        public=False,
    ),
)
