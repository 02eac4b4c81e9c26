"""Sorting, the largest and smallest elements, search in sorted sequences, and unique elements."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind import transforms
from weft.ops.core.checks import check_dim, check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer
from weft.ops.families.sort import job, rows, searchsorted, select, unique
from weft.ops.families.sort.job import Wanted


# ---- arguments ---------------------------------------------------------------------------------
def _check(name: str, input: Any, dim: int) -> int:
    """Raise for a dtype or dimension that does not exist; return the elements of a row."""
    check_dtype(name, "input", input)
    check_dim(name, max(input.dim(), 1), dim)
    return int(input.shape[dim]) if input.dim() else 1


def _check_sort(name: str, input: Any, dim: int, descending: bool, stable: bool) -> None:
    _check(name, input, dim)


def _check_topk(input: Any, k: int, dim: int, largest: bool, sorted: bool) -> None:
    n = _check("topk", input, dim)
    if not 0 <= k <= n:
        raise ArgumentError(
            "weft.ops.topk: a row has fewer elements than wanted", got=f"k={k}", allowed=f"0 to {n}"
        )


def _check_kthvalue(input: Any, k: int, dim: int, keepdim: bool) -> None:
    n = _check("kthvalue", input, dim)
    if not 1 <= k <= n:
        raise ArgumentError(
            "weft.ops.kthvalue: a row has no such element", got=f"k={k}", allowed=f"1 to {n}"
        )


def _with_size(shape: Any, dim: int, size: int | None) -> tuple[int, ...]:
    """A shape with another size of one dimension; None leaves the dimension out."""
    if not shape:
        return ()
    dim = dim % len(shape)
    return (*shape[:dim], *(() if size is None else (size,)), *shape[dim + 1 :])


# ---- candidates --------------------------------------------------------------------------------
def _length(request: Request, dim: int) -> int:
    return request.first.shape[dim] if request.first.shape else 1


def _sort(request: Request) -> list[Candidate]:
    x, dim = request.first, request.options["dim"]
    values, indices = (job.dense(x.shape, x.strides, t) for t in (x.dtype, torch.int64))
    whole = Wanted(0, _length(request, dim), values, indices)
    if request.op == "argsort":
        whole = replace(whole, values=None)
    return job.candidates(request, dim, request.options["descending"], whole, rows.candidates)


def _topk(request: Request) -> list[Candidate]:
    x, dim, k = request.first, request.options["dim"], request.options["k"]
    shape = _with_size(x.shape, dim, k)
    wanted = Wanted(0, k, Buffer(shape, x.dtype), Buffer(shape, torch.int64))
    return job.candidates(request, dim, request.options["largest"], wanted, _part)


def _kthvalue(request: Request) -> list[Candidate]:
    x, dim, k = request.first, request.options["dim"], request.options["k"]
    shape = _with_size(x.shape, dim, 1 if request.options["keepdim"] else None)
    values, indices = Buffer(shape, x.dtype), Buffer(shape, torch.int64)
    return job.candidates(request, dim, False, Wanted(k - 1, 1, values, indices), _part)


def _part(made: job.Job) -> list[Candidate]:
    return [*rows.candidates(made), *select.candidates(made)]


# ---- fake results ------------------------------------------------------------------------------
def _like(input: Any, dtype: torch.dtype) -> Any:
    out = job.dense(input.shape, input.stride(), dtype)
    return input.new_empty(out.shape, dtype=dtype).as_strided(out.shape, out.steps)


def _fake_sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    return _like(input, input.dtype), _like(input, torch.int64)


def _fake_argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    return _like(input, torch.int64)


def _fake_topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    shape = _with_size(input.shape, dim, k)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


def _fake_kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    shape = _with_size(input.shape, dim, 1 if keepdim else None)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int64)


# ---- gradients ---------------------------------------------------------------------------------
def _setup(ctx: Any, dim: int, keepdim: bool, inputs: Any, output: Any) -> None:
    ctx.shape, ctx.dim, ctx.keepdim, ctx.count = list(inputs[0].shape), dim, keepdim, len(inputs)
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _setup_sort(ctx: Any, inputs: Any, output: Any) -> None:
    _setup(ctx, inputs[1], True, inputs, output)


def _setup_topk(ctx: Any, inputs: Any, output: Any) -> None:
    _setup(ctx, inputs[2], True, inputs, output)


def _setup_kthvalue(ctx: Any, inputs: Any, output: Any) -> None:
    _setup(ctx, inputs[2], inputs[3], inputs, output)


def _backward(ctx: Any, grad: Any, *_: Any) -> Any:
    """Put the gradient of each value where the value was."""
    (indices,) = ctx.saved_tensors
    if ctx.shape and not ctx.keepdim:
        grad, indices = grad.unsqueeze(ctx.dim), indices.unsqueeze(ctx.dim)
    zeros = torch.zeros(ctx.shape, dtype=grad.dtype, device=grad.device)
    # vmap refuses to write a batch to zeros that are none; in place it takes a copy less.
    scatter = zeros.scatter if transforms.are_active() else zeros.scatter_
    return scatter(ctx.dim, indices, grad), *(None,) * (ctx.count - 1)


# ---- vmap --------------------------------------------------------------------------------------
def _batched(name: str, place: int) -> Any:
    """The rule of an op whose argument number `place` is the dimension: the batch goes in front."""

    def rule(info: Any, in_dims: Any, input: Any, *rest: Any) -> Any:
        options = list(rest)
        rows = input.movedim(in_dims[0], 0)
        dim = options[place - 1]
        number = rows.dim() == 1
        if number:  # of numbers, each is its own row
            rows, options[place - 1] = rows.unsqueeze(1), 1
        elif dim >= 0:
            options[place - 1] = dim + 1
        made = library.call(name)(rows, *options)
        several = isinstance(made, tuple)
        results = made if several else (made,)
        if number:
            results = tuple(r.reshape(r.shape[0]) for r in results)
        return (results, (0,) * len(results)) if several else (results[0], 0)

    return rule


# ---- definitions -------------------------------------------------------------------------------
_ORDER = """The order is PyTorch's: NaN is larger than any number, 0.0 and -0.0 are equal."""

GROUP = "sorting"
DEFINITIONS = (
    Definition(
        name="sort",
        schema="(Tensor input, int dim=-1, bool descending=False, bool stable=False)"
        " -> (Tensor, Tensor)",
        doc=f"""The elements of input in order along a dimension, and their indices.

{_ORDER} Equal elements keep their order: every sort is stable.""",
        fake=_fake_sort,
        candidates=_sort,
        check=functools.partial(_check_sort, "sort"),
        setup=_setup_sort,
        backward=_backward,
        vmap=_batched("sort", 1),
        autocast=None,
    ),
    Definition(
        name="argsort",
        schema="(Tensor input, int dim=-1, bool descending=False, bool stable=False) -> Tensor",
        doc=f"""The indices that sort input along a dimension.

{_ORDER} Equal elements keep their order: every sort is stable.""",
        fake=_fake_argsort,
        candidates=_sort,
        check=functools.partial(_check_sort, "argsort"),
        vmap=_batched("argsort", 1),
        autocast=None,
    ),
    Definition(
        name="topk",
        schema="(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True)"
        " -> (Tensor, Tensor)",
        doc=f"""The k largest or smallest elements along a dimension, and their indices.

{_ORDER} Of equal elements those that come first are taken. Results are in order even with
sorted=False, which PyTorch leaves open.""",
        fake=_fake_topk,
        candidates=_topk,
        check=_check_topk,
        setup=_setup_topk,
        backward=_backward,
        vmap=_batched("topk", 2),
        autocast=None,
    ),
    Definition(
        name="kthvalue",
        schema="(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)",
        doc=f"""The k-th smallest element along a dimension, and its index.

{_ORDER} Of equal elements it is the one that a stable sort puts there.""",
        fake=_fake_kthvalue,
        candidates=_kthvalue,
        check=_check_kthvalue,
        setup=_setup_kthvalue,
        backward=_backward,
        vmap=_batched("kthvalue", 2),
        autocast=None,
    ),
    *searchsorted.DEFINITIONS,
    *unique.DEFINITIONS,
)
MAKERS = unique.MAKERS
