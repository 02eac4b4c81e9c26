"""cat and stack: tensors one after the other along a dimension, an old one or a new one.

An op takes a fixed number of tensors, so there is one for each number up to `kernels.MOST`. The
public functions choose among them; more tensors are joined in groups first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dim, check_dtype
from weft.ops.core.function import Definition
from weft.ops.core.plan import Layout
from weft.ops.families.join.kernels import MOST, candidates, output


# ---- checks ------------------------------------------------------------------------------------
def _check_list(op: str, tensors: Sequence[Any]) -> None:
    if not isinstance(tensors, tuple | list) or not tensors:
        raise ArgumentError(
            f"weft.ops.{op}: 'tensors' must be a list of at least one tensor",
            got="none" if isinstance(tensors, tuple | list) else type(tensors).__name__,
        )
    for number, tensor in enumerate(tensors):
        check_dtype(op, f"tensors[{number}]", tensor)


def _check_cat(tensors: Sequence[Any], dim: int) -> None:
    """Raise unless all tensors have one shape, except along `dim`."""
    for number, tensor in enumerate(tensors):
        if tensor.dim() == 0:
            raise ArgumentError(
                "weft.ops.cat: a number has no dimension to be joined along",
                got=f"tensor {number} of shape []",
                next="weft.ops.stack joins numbers",
            )
    first = tensors[0]
    check_dim("cat", first.dim(), dim)
    at = dim % first.dim()
    for number, tensor in enumerate(tensors):
        pairs = enumerate(zip(first.shape, tensor.shape, strict=False))
        same = all(a == b for d, (a, b) in pairs if d != at)
        if tensor.dim() != first.dim() or not same:
            raise ArgumentError(
                "weft.ops.cat: the tensors must have one shape, except along dim",
                got=f"tensor {number} of shape {list(tensor.shape)}",
                allowed=f"shape {list(first.shape)} with any size in dimension {at}",
            )


def _check_stack(tensors: Sequence[Any], dim: int) -> None:
    first = tensors[0]
    check_dim("stack", first.dim() + 1, dim)
    for number, tensor in enumerate(tensors):
        if tensor.shape != first.shape:
            raise ArgumentError(
                "weft.ops.stack: the tensors must have one shape",
                got=f"tensor {number} of shape {list(tensor.shape)}",
                allowed=f"shape {list(first.shape)}",
            )


# ---- one op for each number of tensors ---------------------------------------------------------
def _fake(*args: Any) -> Any:
    *tensors, dim, new = args
    if new:
        tensors = [t.unsqueeze(dim) for t in tensors]
    layouts = [Layout(t.dtype, tuple(t.shape), tuple(t.stride()), 16) for t in tensors]
    out = output(layouts, dim % tensors[0].dim())
    return tensors[0].new_empty(out.shape).as_strided(out.shape, out.steps)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.dim, ctx.new = inputs
    ctx.sizes = [] if ctx.new else [t.shape[ctx.dim] for t in tensors]


def _backward(ctx: Any, grad: Any) -> Any:
    parts = grad.unbind(ctx.dim) if ctx.new else grad.split(ctx.sizes, ctx.dim)
    return *parts, None, None


def _batched(info: Any, in_dims: Any, *args: Any) -> Any:
    """A batch is one more dimension in front of the others."""
    *tensors, dim, new = args
    pairs = zip(tensors, in_dims[:-2], strict=True)
    moved = [
        t.expand(info.batch_size, *t.shape) if at is None else t.movedim(at, 0) for t, at in pairs
    ]
    rank = moved[0].dim() - 1 + new
    return library.call(f"cat_{len(moved)}")(*moved, dim % rank + 1, new), 0


def _definition(count: int) -> Definition:
    names = ", ".join(f"Tensor t{i}" for i in range(count))
    return Definition(
        name=f"cat_{count}",
        schema=f"({names}, int dim, bool new) -> Tensor",
        doc=f"cat of {count} tensors of one dtype; stack of them where the dimension is new.",
        fake=_fake,
        candidates=candidates,
        setup=_setup,
        backward=_backward,
        vmap=_batched,
        autocast=None,
        public=False,
    )


# ---- lists of tensors --------------------------------------------------------------------------
class _Joining:
    """The ops by the number of tensors, made with the public function that calls them."""

    def __init__(self) -> None:
        functions = [library.function(f"cat_{count}") for count in range(1, MOST + 1)]
        self.ops = [f.call for f in functions]
        self._learned = [f.native for f in functions]

    def known(self, tensors: Any, dim: int, new: bool) -> Any:
        """The result by a plan that the C++ code has learned, else NotImplemented.

        The arguments of such a plan were valid, so these are: no check costs time.
        """
        if type(tensors) not in (list, tuple) or not 0 < len(tensors) <= MOST:
            return NotImplemented
        return self._learned[len(tensors) - 1].call(*tensors, dim, new)

    def join(self, tensors: list[Any], dim: int, new: bool) -> Any:
        """Join tensors of any number and dtypes."""
        dtypes = {t.dtype for t in tensors}
        if len(dtypes) > 1:
            dtype = functools.reduce(torch.promote_types, dtypes)
            tensors = [t.to(dtype) for t in tensors]
        while len(tensors) > MOST:
            groups = [tensors[i : i + MOST] for i in range(0, len(tensors), MOST)]
            tensors = [self.ops[len(group) - 1](*group, dim, new) for group in groups]
            new = False
        return self.ops[len(tensors) - 1](*tensors, dim, new)


def _cat() -> Callable[..., Any]:
    joining, compiling = _Joining(), torch.compiler.is_dynamo_compiling

    def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
        """The tensors one after the other along a dimension that they have, as torch.cat.

        All have one shape, except along dim; their dtypes are promoted. A vector of no elements
        joins tensors of any shape, as in torch. Up to 32 tensors are one launch.
        """
        if not compiling():
            result = joining.known(tensors, dim, False)
            if result is not NotImplemented:
                return result
        _check_list("cat", tensors)
        parts = list(tensors)
        if any(t.dim() > 1 for t in parts):
            dtype = functools.reduce(torch.promote_types, [t.dtype for t in parts])
            parts = [t.to(dtype) for t in parts if tuple(t.shape) != (0,)]
        _check_cat(parts, dim)
        return joining.join(parts, dim, False)

    return cat


def _stack() -> Callable[..., Any]:
    joining, compiling = _Joining(), torch.compiler.is_dynamo_compiling

    def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
        """Tensors of one shape along a new dimension, as torch.stack; dtypes are promoted."""
        if not compiling():
            result = joining.known(tensors, dim, True)
            if result is not NotImplemented:
                return result
        _check_list("stack", tensors)
        _check_stack(tensors, dim)
        return joining.join(list(tensors), dim, True)

    return stack


GROUP = "joining"
DEFINITIONS = tuple(_definition(count) for count in range(1, MOST + 1))
MAKERS = {"cat": _cat, "stack": _stack}
