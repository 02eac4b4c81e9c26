"""Running sums, products and maxima along any dimension, in both directions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

import weft.ops
from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.bind.derive import derive
from weft.ops.core.checks import check_dim, check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.families.scan.candidates import ROWS, WIDENED, candidates, output


def _check(name: str, x: Any, dim: int, op: str) -> None:
    if op not in ROWS:
        raise ArgumentError(f"weft.ops.{name}: op is {op!r}", allowed=", ".join(map(repr, ROWS)))
    allowed = [d for d in source.CTYPES if ROWS[op].wide or d not in WIDENED]
    check_dtype(name, "x", x, allowed)
    check_dim(name, max(x.dim(), 1), dim)


def reference(x: Any, dim: int, op: str, exclusive: bool, reverse: bool) -> Any:
    """The same computation in torch."""
    if not x.dim():
        return reference(x.reshape(1), 0, op, exclusive, reverse).reshape(())
    if reverse:
        return reference(x.flip(dim), dim, op, exclusive, False).flip(dim)
    y = ROWS[op].torch(x, dim)
    if not exclusive or not y.numel():
        return y
    first = torch.full_like(y.narrow(dim, 0, 1), ROWS[op].none(y.dtype))
    return torch.cat([first, y.narrow(dim, 0, y.shape[dim] - 1)], dim)


def _fake(op: str, x: Any) -> Any:
    out = output(ROWS[op], x.shape, x.stride(), x.dtype)
    return x.new_empty(out.shape, dtype=out.dtype).as_strided(out.shape, out.steps)


def _setup(arguments: Callable[..., tuple[Any, ...]], ctx: Any, inputs: Any, output: Any) -> None:
    x, dim, op, exclusive, reverse = arguments(*inputs)
    ctx.options, ctx.count = (dim, op, exclusive, reverse), len(inputs)
    ctx.save_for_backward(*(() if op == "sum" else (x,)))


def _backward(ctx: Any, grad: Any) -> Any:
    """The gradient of a sum is a sum in the other direction; others use torch's derivative."""
    dim, op, exclusive, reverse = ctx.options
    rest = (None,) * (ctx.count - 1)
    if op == "sum":
        return (weft.ops.scan(grad, dim, op, exclusive, not reverse), *rest)
    (x,) = ctx.saved_tensors
    return (*derive(lambda t: reference(t, dim, op, exclusive, reverse), [x], [grad]), *rest)


def _definition(name: str, schema: str, doc: str, arguments: Callable[..., Any]) -> Definition:
    """Define an op; `arguments` maps a call to the arguments of `scan`."""

    def scan_candidates(request: Request) -> list[Candidate]:
        _, dim, op, exclusive, reverse = arguments(None, **request.options)
        return candidates(ROWS[op], dim, (exclusive, reverse), request)

    return Definition(
        name=name, schema=schema, doc=doc, candidates=scan_candidates,
        fake=lambda x, *rest: _fake(arguments(x, *rest)[2], x),
        check=lambda *args: _check(name, *arguments(*args)[:3]),
        setup=functools.partial(_setup, arguments), backward=_backward,
        autocast=None if name == "cummax" else torch.float32,
    )  # fmt: skip


def _scan(
    x: Any, dim: int = -1, op: str = "sum", exclusive: bool = False, reverse: bool = False
) -> tuple[Any, ...]:
    return x, dim, op, exclusive, reverse


GROUP = "reductions"
DEFINITIONS = (
    _definition(
        "cumsum",
        "(Tensor x, int dim) -> Tensor",
        "Sums of the elements up to each one along a dimension; int64 for integers.",
        lambda x, dim: _scan(x, dim, "sum"),
    ),
    _definition(
        "cumprod",
        "(Tensor x, int dim) -> Tensor",
        "Products of the elements up to each one along a dimension; int64 for integers.",
        lambda x, dim: _scan(x, dim, "prod"),
    ),
    _definition(
        "cummax",
        "(Tensor x, int dim) -> Tensor",
        "The largest of the elements up to each one along a dimension: the values, without the"
        " indices that torch.cummax also returns.",
        lambda x, dim: _scan(x, dim, "max"),
    ),
    _definition(
        "scan",
        "(Tensor x, int dim=-1, str op='sum', bool exclusive=False, bool reverse=False) -> Tensor",
        "A running 'sum', 'prod' or 'max' along a dimension. An exclusive result leaves its own"
        " element out; a reverse one starts at the end.",
        _scan,
    ),
)
