"""permute, transpose and contiguous: copies with permuted dimensions.

The result is a new contiguous tensor, except for `contiguous` of a contiguous tensor. Elements are
copied as bits, so every dtype of 1, 2, 4 or 8 bytes works. Complex dtypes are excluded: the bits of
a conjugated view are not its values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import weft.ops  # its ops are registered when they are asked for
from weft.errors import ArgumentError
from weft.ops.core.checks import check_dim
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.layouts import permuted
from weft.ops.core.plan import Buffer, Plan, Pointer
from weft.ops.families.elementwise.copies import SIZES, copying
from weft.ops.families.elementwise.jobs import Strategy

Order = Callable[..., Sequence[int]]
"""(number of dimensions, *the op's options) -> the dimensions in their new order."""


def _permuted(rank: int, dims: Sequence[int]) -> Sequence[int]:
    return [d % rank for d in dims] if rank else []


def _transposed(rank: int, dim0: int = 0, dim1: int = 1) -> Sequence[int]:
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return order


def _same(rank: int) -> Sequence[int]:
    return range(rank)


# ---- candidates --------------------------------------------------------------------------------
def _candidates(order: Order, request: Request) -> list[Candidate]:
    x = request.first
    dims = order(len(x.shape), *request.options.values())
    reordered = permuted(x, dims)
    out = Buffer(reordered.shape, x.dtype)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    options = copying(reordered, Pointer(0), Pointer(1), request.target)
    return [Candidate(w.name, w.cost, w.why, functools.partial(_plan, w, out)) for w in options]


def _plan(strategy: Strategy, out: Buffer) -> Plan:
    return Plan((strategy.build(),), (out,))


# ---- checks ------------------------------------------------------------------------------------
def _check(name: str, x: Any, *options: Any) -> None:
    if x.dtype.itemsize not in SIZES or x.dtype.is_complex:
        raise ArgumentError(
            f"weft.ops.{name}: 'x' has a dtype that no kernel takes",
            got=str(x.dtype),
            allowed="elements of 1, 2, 4 or 8 bytes that are not complex",
        )
    dims = options[0] if name == "permute" else options
    rank = x.dim()
    for dim in dims:
        check_dim(name, rank, dim)
    if name == "permute" and sorted(d % rank for d in dims) != list(range(rank)):
        raise ArgumentError(
            "weft.ops.permute: 'dims' must name each dimension once",
            got=str(list(dims)),
            allowed=f"an order of {list(range(rank))}",
        )


# ---- definitions -------------------------------------------------------------------------------
def _fake(name: str, order: Order, x: Any, *options: Any) -> Any:
    _check(name, x, *options)
    return x.new_empty([x.shape[d] for d in order(x.dim(), *options)])


def _setup(order: Order, ctx: Any, inputs: Any, output: Any) -> None:
    dims = order(inputs[0].dim(), *inputs[1:])
    ctx.back = sorted(range(len(dims)), key=lambda d: dims[d])
    ctx.options = len(inputs) - 1


def _backward(ctx: Any, grad: Any) -> Any:
    back = weft.ops.permute(grad, ctx.back) if ctx.back else grad
    return (back, *[None] * ctx.options)


def _batched(order: Order, info: Any, in_dims: Any, x: Any, *options: Any) -> Any:
    """A batch is one more dimension in front of the others."""
    dims = order(x.dim() - 1, *options)
    return weft.ops.permute(x.movedim(in_dims[0], 0), [0, *(d + 1 for d in dims)]), 0


def _contiguous_already(contiguous: Callable[..., Any]) -> Callable[..., Any]:
    """Return contiguous inputs unchanged, before torch: registered ops must not alias inputs."""
    return lambda x: x if x.is_contiguous() else NotImplemented


def _definition(
    name: str, options: str, doc: str, order: Order, redirect: Any = None
) -> Definition:
    return Definition(
        name=name,
        schema=f"(Tensor x{options}) -> Tensor",
        doc=doc,
        fake=functools.partial(_fake, name, order),
        candidates=functools.partial(_candidates, order),
        check=functools.partial(_check, name),
        setup=functools.partial(_setup, order),
        backward=_backward,
        vmap=functools.partial(_batched, order),
        autocast=None,
        redirect=redirect,
    )


DEFINITIONS = (
    _definition(
        "permute", ", int[] dims", "A contiguous tensor with x's dimensions in the order `dims`.",
        _permuted,
    ),
    _definition(
        "transpose", ", int dim0=0, int dim1=1",
        "A contiguous tensor with two dimensions of x exchanged, by default the first two.",
        _transposed,
    ),
    _definition(
        "contiguous", "", "x itself where it is contiguous, else a contiguous copy.",
        _same, _contiguous_already,
    ),
)  # fmt: skip
