"""softmax and log_softmax: definitions, argument checks and gradients."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.core.checks import check_dim, check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.softmax import backward, forward

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _check(name: str, x: Any, dim: int) -> None:
    check_dtype(name, "x", x, DTYPES, next="convert it: x.float()")
    check_dim(name, max(x.dim(), 1), dim)


def _batch_dim(x: Any, dim: int) -> int:
    """The index of `dim` in a tensor with one more leading dimension."""
    return int(dim % (x.dim() - 1) + 1)


# ---- forward -----------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)
    ctx.dim = inputs[1]


def _gradient(name: str, ctx: Any, grad: Any) -> Any:
    (y,) = ctx.saved_tensors
    return library.call(f"{name}_backward")(grad, y, ctx.dim), None


def _batched(name: str, info: Any, in_dims: Any, x: Any, dim: int = -1) -> Any:
    """A batch is one more dimension in front of the others."""
    x = x.movedim(in_dims[0], 0)
    if x.dim() == 1:  # numbers: softmax of one element each
        return library.call(name)(x.unsqueeze(1), 1).squeeze(1), 0
    return library.call(name)(x, _batch_dim(x, dim)), 0


def _definition(name: str, log: bool) -> Definition:
    return Definition(
        name=name,
        schema="(Tensor x, int dim=-1) -> Tensor",
        doc=f"{'The logarithm of softmax' if log else 'Softmax'} of x along a dimension.",
        fake=lambda x, dim=-1: x.new_empty(x.shape),
        candidates=functools.partial(forward.candidates, log),
        check=functools.partial(_check, name),
        setup=_setup,
        backward=functools.partial(_gradient, name),
        vmap=functools.partial(_batched, name),
    )


# ---- backward ----------------------------------------------------------------------------------
def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    grad, y, ctx.dim = inputs
    ctx.save_for_backward(grad, y)


def _second_gradient(log: bool, ctx: Any, v: Any) -> Any:
    """The second derivative, for both tensors."""
    grad, y = ctx.saved_tensors
    dim = ctx.dim
    if log:
        weight = y.exp()
        total = (v * weight).sum(dim, keepdim=True)
        return v - total, -v * weight * grad.sum(dim, keepdim=True), None
    total = (v * y).sum(dim, keepdim=True)
    weighted = (grad * y).sum(dim, keepdim=True)
    return y * (v - total), v * (grad - weighted) - grad * total, None


def _batched_backward(name: str, info: Any, in_dims: Any, grad: Any, y: Any, dim: int) -> Any:
    """A batch is one more dimension in front; a tensor without one is repeated."""
    tensors = [
        t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0)
        for t, d in zip((grad, y), in_dims, strict=False)
    ]
    op = library.call(name)
    if tensors[1].dim() == 1:  # numbers: softmax of one element each
        return op(*(t.unsqueeze(1) for t in tensors), 1).squeeze(1), 0
    return op(*tensors, _batch_dim(tensors[1], dim)), 0


def _backward_definition(name: str, log: bool) -> Definition:
    return Definition(
        name=f"{name}_backward",
        schema="(Tensor dy, Tensor y, int dim) -> Tensor",
        doc=f"The gradient of {name}'s input, from the gradient of its result y.",
        fake=lambda dy, y, dim: y.new_empty(y.shape),
        candidates=functools.partial(backward.candidates, log),
        setup=_setup_backward,
        backward=functools.partial(_second_gradient, log),
        vmap=functools.partial(_batched_backward, f"{name}_backward"),
        public=False,
    )


GROUP = "reductions"
DEFINITIONS = (
    _backward_definition("softmax", False),
    _backward_definition("log_softmax", True),
    _definition("softmax", False),
    _definition("log_softmax", True),
)
