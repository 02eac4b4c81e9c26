"""The backward op of batch_norm."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.ops.core.bind.derive import derive
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Counters, Plan, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.batch_norm import dtypes
from weft.ops.families.norm.channels import Channels, channels, result_like, result_of
from weft.ops.families.norm.resident import Resident, resident


def _candidates(request: Request) -> list[Candidate]:
    x, weight = request.inputs[1], request.inputs[4]
    assert x is not None
    wanted = request.options["weights"]
    dtype = torch.float32 if weight is None else weight.dtype
    sums = Buffer(x.shape[1:2] if wanted else (0,), dtype, zeroed=x.numel == 0)
    outputs = (result_of(x), sums, sums)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    made = channels(request, (0, 1), outputs)
    passes = 5 if request.options["training"] else 4 if wanted else 2
    moved = passes * x.numel * x.itemsize
    time = made.cost + model.stream_time(request.target, moved, launches=2)
    why = f"{made.summing} blocks per channel, vectors of {made.vector}"
    found = [Candidate("channels", time, why, functools.partial(_plan, made))]
    kept = resident(made, 2) if request.options["training"] else None
    if kept is not None:
        build = functools.partial(_one_launch, kept)
        found.append(Candidate("resident", made.cost + kept.time, kept.why, build))
    return found


def _one_launch(kept: Resident) -> Plan:
    made = kept.made
    found, scratch = kept.found(made.extra(0))
    wanted = made.request.options["weights"]
    weights = (made.output(1), made.output(2)) if wanted else (None, None)
    args = (*made.inputs, made.output(0), *weights, found)
    step = kept.step("resident_backward.cu", "gradients", *args, dtypes=dtypes(made, 2))
    return made.plan(step, scratch=scratch)


def _plan(made: Channels) -> Plan:
    training, wanted = (made.request.options[name] for name in ("training", "weights"))
    statistics, weight = dtypes(made, 2)
    eps, parts = made.request.options["eps"], made.summing
    *inputs, w = made.inputs
    found, scratch = made.found(1, 2)
    steps: list[Step] = []
    if training or wanted:
        kernel = made.kernel("channels_backward.cu", "sums", statistics, weight)
        weights = (made.output(1), made.output(2)) if wanted else (None, None)
        args = (*inputs, made.extra(0), *weights, found, Counters(), made.shape(parts), eps)
        steps.append(made.step(kernel, parts, *args))
    batch, to = [str(training).lower()], made.folded()
    kernel = to.kernel("channels_backward.cu", "gradient", statistics, weight, last=batch)
    args = (*inputs, w, made.extra(0), made.output(0), to.shape(to.writing), float(made.size), eps)
    steps.append(to.step(kernel, to.writing, *args))
    sums = Buffer((made.channels, 2), torch.float32)
    return made.plan(*steps, scratch=(sums, *scratch))


# ---- definitions -------------------------------------------------------------------------------
def _fake(dy: Any, x: Any, mean: Any, var: Any, weight: Any, *options: Any) -> Any:
    dtype = torch.float32 if weight is None else weight.dtype
    shape = x.shape[1:2] if options[-1] else (0,)
    return result_like(x), *(x.new_empty(shape, dtype=dtype) for _ in range(2))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    dy, x, mean, var, weight, *ctx.options = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(dy, x, mean, var, weight)


def _backward(ctx: Any, *grads: Any) -> Any:
    """Second derivatives, by torch: the first ones written out and differentiated."""
    dy, x, mean, var, weight = ctx.saved_tensors
    inputs = [t for t in (dy, x, weight) if t is not None]
    found = derive(functools.partial(_written_out, ctx.options, mean, var), inputs, grads)
    dweight = None if weight is None else found[2]
    return found[0], found[1], None, None, dweight, None, None, None


def _written_out(
    options: Any, mean: Any, var: Any, dy: Any, x: Any, weight: Any = None
) -> tuple[Any, ...]:
    training, eps, _ = options
    shape = (1, -1, *[1] * (x.dim() - 2))
    dims = (0, *range(2, x.dim()))
    wide, g = x.float(), dy.float()
    if training:
        mean, var = wide.mean(dims), wide.var(dims, correction=0)
    scale = (var.float() + eps).rsqrt().view(shape)
    z = (wide - mean.float().view(shape)) * scale
    d = g
    if training:
        d = g - g.mean(dims, keepdim=True) - z * (g * z).mean(dims, keepdim=True)
    dx = d * scale if weight is None else d * scale * weight.float().view(shape)
    dtype = torch.float32 if weight is None else weight.dtype
    return dx.to(x.dtype), (g * z).sum(dims).to(dtype), g.sum(dims).to(dtype)


DEFINITIONS = (
    Definition(
        name="batch_norm_backward",
        schema="(Tensor dy, Tensor x, Tensor mean, Tensor var, Tensor? weight, bool training,"
        " float eps, bool weights) -> (Tensor, Tensor, Tensor)",
        doc="The gradients of batch_norm's input and weights.",
        fake=_fake,
        candidates=_candidates,
        setup=_setup,
        backward=_backward,
        autocast=None,
        public=False,
    ),
)
