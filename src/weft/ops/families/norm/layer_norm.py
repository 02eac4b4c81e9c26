"""layer_norm and rms_norm, alone or of a sum with a residual."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.bind import batching
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.invariant import invariant
from weft.ops.core.plan import Buffer, Plan
from weft.ops.families.norm import transposed
from weft.ops.families.norm.arguments import check_rows, sizes
from weft.ops.families.norm.forward import LONG_ORDER, ORDER, RowNorm, candidates
from weft.ops.families.norm.rows import row_job
from weft.ops.families.norm.saving import saving

KINDS = (
    RowNorm("layer_norm", True, False),
    RowNorm("rms_norm", False, False),
    RowNorm("add_layer_norm", True, True),
    RowNorm("add_rms_norm", False, True),
)


# ---- candidates --------------------------------------------------------------------------------
def _candidates(kind: RowNorm, saved: bool, request: Request) -> list[Candidate]:
    x = request.first
    n = math.prod(request.options["normalized_shape"])
    lead = x.shape[: len(x.shape) - len(request.options["normalized_shape"])]
    outputs = [Buffer(x.shape, x.dtype)] * kind.tensors
    if saved:
        outputs += [Buffer(lead, torch.float32)] * (1 + kind.centred)
    if x.numel == 0:
        zeros = [b._replace(zeroed=True) for b in outputs]
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), tuple(zeros)))]
    rows, weights = range(kind.tensors), range(kind.tensors, len(request.inputs))
    made = row_job(request, n, rows, weights, outputs, forward=True)
    if request.invariant:  # else rows would begin at different places of a vector
        made = replace(made, vector=math.gcd(made.vector, n))
        return candidates(kind, saved, made)
    dims = len(request.options["normalized_shape"])
    strided = transposed.candidates(kind, saved, request, n, dims, outputs)
    return [*candidates(kind, saved, made), *strided]


# ---- definitions -------------------------------------------------------------------------------
def _split(kind: RowNorm, args: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """(the tensors of rows, the shape, the weights) of a call."""
    t = kind.tensors
    return args[:t], args[t], args[t + 1 : t + 2 + kind.centred]


def _check(kind: RowNorm, name: str, *args: Any) -> None:
    rows, shape, weights = _split(kind, args)
    named = dict(zip(("weight", "bias"), weights, strict=False))
    check_rows(name, rows[0], shape, **named)
    if kind.added and (rows[1].shape != rows[0].shape or rows[1].dtype != rows[0].dtype):
        raise ArgumentError(
            f"weft.ops.{name}: 'residual' must have input's shape and dtype",
            got=f"{list(rows[1].shape)} of {rows[1].dtype}",
            allowed=f"{list(rows[0].shape)} of {rows[0].dtype}",
        )


def _fake(kind: RowNorm, saved: bool, *args: Any) -> Any:
    rows, shape, _ = _split(kind, args)
    x = rows[0]
    results = [x.new_empty(x.shape) for _ in range(kind.tensors)]
    if saved:
        lead = x.shape[: x.dim() - len(sizes(shape))]
        results += [x.new_empty(lead, dtype=torch.float32) for _ in range(1 + kind.centred)]
    return results[0] if len(results) == 1 else tuple(results)


def _setup(kind: RowNorm, ctx: Any, inputs: Any, output: Any) -> None:
    """Save the rows, the weight and the statistics."""
    rows, ctx.shape, weights = _split(kind, inputs)
    statistics = output[kind.tensors :]
    ctx.mark_non_differentiable(*statistics)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1] if kind.added else rows[0], weights[0], *statistics)
    ctx.biased = kind.centred and weights[1] is not None


def _backward(kind: RowNorm, ctx: Any, *grads: Any) -> Any:
    x, weight, *statistics = ctx.saved_tensors
    return _gradients(kind, ctx, x, weight, statistics, grads)


def _setup_again(kind: RowNorm, ctx: Any, inputs: Any, output: Any) -> None:
    """Save the rows and the weight; the backward pass computes the statistics again."""
    rows, ctx.shape, weights = _split(kind, inputs)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1] if kind.added else rows[0], weights[0])
    ctx.biased = kind.centred and weights[1] is not None
    ctx.eps = inputs[-1]


def _backward_again(kind: RowNorm, ctx: Any, *grads: Any) -> Any:
    x, weight = ctx.saved_tensors
    bare = library.call(f"{kind.name.removeprefix('add_')}_forward")
    _, *statistics = bare(x.detach(), ctx.shape, eps=ctx.eps)
    return _gradients(kind, ctx, x, weight, statistics, grads)


def _gradients(
    kind: RowNorm, ctx: Any, x: Any, weight: Any, statistics: Any, grads: tuple[Any, ...]
) -> Any:
    """One gradient per argument."""
    # torch.autograd.grad accepts gradients of any dtype.
    dy = torch.zeros_like(x) if grads[0] is None else grads[0].to(x.dtype)
    dtotal = grads[1].to(x.dtype) if kind.added and grads[1] is not None else None
    at = kind.tensors + 1
    wanted = any(ctx.needs_input_grad[at:])
    name = f"{kind.name.removeprefix('add_')}_backward"
    dx, *sums = library.call(name)(dy, x, weight, *statistics, dtotal, ctx.shape, wanted)
    given = (weight is not None, ctx.biased)
    weights = [s if g and wanted else None for s, g in zip(sums, given, strict=False)]
    return (*[dx] * kind.tensors, None, *weights, None)


def _batched(kind: RowNorm, name: str, info: Any, in_dims: Any, *args: Any) -> Any:
    """A batch of rows is more rows; a batch of weights needs one call each."""
    op = library.call(name)
    if any(isinstance(d, int) for d in in_dims[kind.tensors :]):
        rule = batching.rule(f"weft::{name}", op, "loop")
        return rule(info, in_dims, *args)
    pairs = zip(args[: kind.tensors], in_dims, strict=False)
    rows = [t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0) for t, d in pairs]
    out = op(*rows, *args[kind.tensors :])
    return out, 0 if isinstance(out, torch.Tensor) else tuple(0 for _ in out)


_DOCS = {
    "layer_norm": "Layer norm over the last dimensions, as torch.nn.functional.layer_norm.",
    "rms_norm": "RMS norm over the last dimensions, as torch.nn.functional.rms_norm.",
    "add_layer_norm": "(layer norm of input + residual, input + residual): one pass over memory.",
    "add_rms_norm": "(RMS norm of input + residual, input + residual): one pass over memory.",
}


def _definition(kind: RowNorm, saved: bool) -> Definition:
    name = f"{kind.name}_forward" if saved else kind.name
    tensors = "Tensor input, Tensor residual" if kind.added else "Tensor input"
    weights = "Tensor? weight=None, Tensor? bias=None" if kind.centred else "Tensor? weight=None"
    eps = "float eps=1e-05" if kind.centred else "float? eps=None"
    results = kind.tensors + saved * (1 + kind.centred)
    returned = ", ".join(["Tensor"] * results)
    return Definition(
        name=name,
        schema=f"({tensors}, int[] normalized_shape, {weights}, {eps}) -> "
        + (f"({returned})" if results > 1 else returned),
        doc=_DOCS[kind.name],
        fake=functools.partial(_fake, kind, saved),
        candidates=functools.partial(_candidates, kind, saved),
        check=functools.partial(_check, kind, kind.name),
        setup=functools.partial(_setup if saved else _setup_again, kind),
        backward=functools.partial(_backward if saved else _backward_again, kind),
        vmap=functools.partial(_batched, kind, name),
        redirect=None if saved else saving(kind.name, kind.tensors),
        public=not saved,
    )


DEFINITIONS = (
    *(_definition(kind, saved) for kind in KINDS for saved in (False, True)),
    *(invariant(_definition(kind, False), (ORDER, LONG_ORDER)) for kind in KINDS),
)
