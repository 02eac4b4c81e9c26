"""Reductions along any dimensions: sums, products, extremes, indices, norms, variances."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.bind.derive import derive
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.reduce.candidates import candidates
from weft.ops.families.reduce.reduction import (
    NORMS,
    Reduction,
    reduced_dims,
    result_dtype,
    result_shape,
)

MEAN = Reduction("mean", "Mean", "a", "The mean", "float", torch.mean, integers=False)
AMAX = Reduction("amax", "Max", "a", "The largest element", "same", torch.amax, empty=False)
ROWS = (
    Reduction("sum", "Sum", "a", "The sum", "wide", torch.sum),
    MEAN,
    Reduction("prod", "Product", "a", "The product", "wide", torch.prod),
    AMAX,
    Reduction("amin", "Min", "a", "The smallest element", "same", torch.amin, empty=False),
    Reduction("argmax", "ArgMax", "0", "The index of the largest element", "index", torch.argmax,
        empty=False, one=True),
    Reduction("argmin", "ArgMin", "0", "The index of the smallest element", "index", torch.argmin,
        empty=False, one=True),
    Reduction("norm", "Norm2", "absolute(a)", "The norm of order 1, 2 or infinity", "float",
        lambda x, dim, keepdim, ord: torch.linalg.vector_norm(x, ord, dim, keepdim),
        extra=", float ord=2.0", integers=False),
    Reduction("var", "Var", "(a - a) / s", "The variance", "float",
        lambda x, dim, keepdim, c: torch.var(x, dim, correction=c, keepdim=keepdim),
        extra=", int correction=1", integers=False),
    Reduction("any", "Any", "a != 0", "True if any element is not zero", "bool", torch.any),
    Reduction("all", "All", "a != 0", "True if no element is zero", "bool", torch.all),
    Reduction("count_nonzero", "Count", "a != 0", "The number of elements that are not zero",
              "count", lambda x, dim, keepdim: (x != 0).sum(dim, keepdim)),
)  # fmt: skip


# ---- definitions -------------------------------------------------------------------------------
def _check(op: Reduction, x: Any, dim: Any, keepdim: bool, *extra: Any) -> None:
    allowed = [d for d in source.CTYPES if op.integers or d.is_floating_point]
    check_dtype(op.name, "x", x, allowed)
    named = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    rank = max(x.dim(), 1)
    if any(not -rank <= d < rank for d in named) or len({d % rank for d in named}) < len(named):
        raise ArgumentError(
            f"weft.ops.{op.name}: the dimensions are not those of the tensor",
            got=f"dim {dim} of {x.dim()} dimensions",
            allowed=f"{-rank} to {rank - 1}, each once",
        )
    if op.name in ("any", "all") and dim is not None and not named:
        raise ArgumentError(
            f"weft.ops.{op.name}: no dimension is named, for which torch.{op.name} reduces none",
            got=f"dim {dim}",
            allowed="dimensions, or None for all",
            next="x != 0 reduces none",
        )
    dims = reduced_dims(x.dim(), dim)
    if not op.empty and 0 in [x.shape[d] for d in dims]:
        raise ArgumentError(
            f"weft.ops.{op.name}: there is no element along the reduced dimensions",
            got=f"shape {list(x.shape)}, dim {dim}",
            allowed="at least one element",
        )
    if op.name == "norm" and extra[0] not in NORMS:
        raise ArgumentError(f"weft.ops.norm: ord is {extra[0]}", allowed="1, 2, math.inf")


def _fake(op: Reduction, x: Any, dim: Any = None, keepdim: bool = False, *extra: Any) -> Any:
    shape = result_shape(x.shape, reduced_dims(x.dim(), dim), keepdim)
    return x.new_empty(shape, dtype=result_dtype(op, x.dtype))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.rest = inputs[1:]


def _backward(op: Reduction, ctx: Any, grad: Any) -> Any:
    """Differentiate torch's version of the same function."""
    (x,) = ctx.saved_tensors
    dim, keepdim, *extra = ctx.rest
    dims = reduced_dims(x.dim(), dim)
    function = _product if op.name == "prod" else op.torch
    found = derive(lambda t: function(t, dims, keepdim, *extra), [x], [grad])
    return (*found, None, None, *(None for _ in extra))


def _product(x: Any, dims: Sequence[int], keepdim: bool) -> Any:
    for d in reversed(dims):
        x = torch.prod(x, d, keepdim)
    return x


_SINGLE = ("sum", "prod", "norm")
"""Reductions that torch.autocast computes in float32."""
DIFFERENTIABLE = ("sum", "mean", "prod", "amax", "amin", "norm", "var")


def _definition(op: Reduction) -> Definition:
    dims = "int? dim=None" if op.one else "int[1]? dim=None"
    smooth = op.name in DIFFERENTIABLE
    return Definition(
        name=op.name,
        schema=f"(Tensor x, {dims}, bool keepdim=False{op.extra}) -> Tensor",
        doc=f"{op.doc}, along some dimensions of x or all of them.",
        fake=functools.partial(_fake, op),
        candidates=functools.partial(candidates, op),
        check=functools.partial(_check, op),
        setup=_setup if smooth else None,
        backward=functools.partial(_backward, op) if smooth else None,
        autocast=torch.float32 if op.name in _SINGLE else None,
    )


GROUP = "reductions"
DEFINITIONS = tuple(map(_definition, ROWS))
