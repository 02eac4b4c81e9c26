"""The ops of batch_norm in training: the result with its statistics, and the running ones.

Only the first one has a gradient, which takes into account that mean and variance depend on the
input. The second one writes to its arguments, for which torch allows no gradient.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.arguments import check_dtype, check_weights
from weft.ops.families.norm.batch_norm import apply_step, check, statistics_step, why
from weft.ops.families.norm.channels import Channels, channels, result_like, result_of
from weft.ops.families.norm.resident import Resident, resident
from weft.ops.families.norm.rows import BLOCK


# ---- candidates --------------------------------------------------------------------------------
def _candidates(request: Request) -> list[Candidate]:
    x = request.first
    found = Buffer(x.shape[1:2], torch.float32)
    outputs = (result_of(x), found, found)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    made = channels(request, (0,), outputs)
    passes = model.stream_time(request.target, 3 * x.numel * x.itemsize, launches=2)
    made_of = [
        Candidate("channels", made.cost + passes, why(made), functools.partial(_two_passes, made))
    ]
    if (kept := resident(made, 1)) is not None:
        build = functools.partial(_one_launch, kept)
        made_of.append(Candidate("resident", made.cost + kept.time, kept.why, build))
    return made_of


def _weight(made: Channels) -> torch.dtype:
    return next((w.dtype for w in made.request.inputs[1:] if w is not None), torch.float32)


def _two_passes(made: Channels) -> Plan:
    statistics = made.output(1), made.output(2)
    first, scratch = statistics_step(made, *statistics)
    inputs = (made.inputs[0], *statistics, *made.inputs[1:])
    second = apply_step(made.folded(), inputs, torch.float32, _weight(made))
    return made.plan(first, second, scratch=scratch)


def _one_launch(kept: Resident) -> Plan:
    made = kept.made
    found, scratch = kept.found(made.extra(0))
    outputs = (made.output(number) for number in range(3))
    args = (*made.inputs, *outputs, found)
    step = kept.step("resident.cu", "normalise", *args, dtypes=(_weight(made),))
    return made.plan(step, scratch=scratch)


def _update(request: Request) -> list[Candidate]:
    mean, options = request.inputs[2], request.options
    assert mean is not None
    dtype = next((t.dtype for t in request.inputs[:2] if t is not None), torch.float32)
    running = (None if t is None else Pointer(i) for i, t in enumerate(request.inputs[:2]))
    numbers = (options["momentum"], float(options["count"]), mean.shape[0])
    args = (*running, Pointer(2), Pointer(3), *numbers)

    def build() -> Plan:
        kernel = source.kernel("norm/running.cu", f"update<{source.ctype(dtype)}>")
        # An op returns a tensor: the one that is not needed has no elements.
        step = Step(kernel, (cdiv(mean.shape[0], BLOCK),), (BLOCK,), args, early=True)
        return Plan((step,), (Buffer((0,), torch.float32),))

    return [Candidate("update", request.target.launch, "", build)]


# ---- checks ------------------------------------------------------------------------------------
def _check_training(x: Any, weight: Any, bias: Any, eps: float) -> None:
    check("batch_norm", x, None, None, weight, bias, True)


def _check_update(mean: Any, var: Any, found: Any, *rest: Any) -> None:
    for name, t in (("running_mean", mean), ("running_var", var)):
        if t is None:
            continue
        check_dtype("batch_norm", t)
        check_weights("batch_norm", t, tuple(found.shape), **{name: t})
        if not t.is_contiguous():
            raise ArgumentError(
                f"weft.ops.batch_norm: '{name}' must be contiguous, because it is changed",
                got=f"strides {t.stride()}",
                next=f"{name}.contiguous()",
            )
    check_weights("batch_norm", found if mean is None else mean, tuple(found.shape),
                  running_mean=mean, running_var=var)  # fmt: skip


def _refused(info: Any, in_dims: Any, *args: Any) -> Any:
    raise ArgumentError(
        "weft.ops.batch_norm: torch.vmap cannot update running statistics",
        next="call it with training=False, or without torch.vmap",
    )


# ---- definitions -------------------------------------------------------------------------------
def _fake(x: Any, *rest: Any) -> Any:
    return result_like(x), *(x.new_empty(x.shape[1:2], dtype=torch.float32) for _ in range(2))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, ctx.eps = inputs
    ctx.biased = bias is not None
    ctx.save_for_backward(x, *output[1:], weight)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # zeros for the statistics would be kernels


def _backward(ctx: Any, grad: Any, *_: Any) -> Any:
    x, mean, var, weight = ctx.saved_tensors
    wanted = any(ctx.needs_input_grad[1:3])
    backward = library.call("batch_norm_backward")
    # torch.autograd.grad accepts gradients of any dtype.
    dx, dw, db = backward(grad.to(x.dtype), x, mean, var, weight, True, ctx.eps, wanted)
    dw = dw if weight is not None and wanted else None
    return dx, dw, db if ctx.biased and wanted else None, None


DEFINITIONS = (
    Definition(
        name="batch_norm_training",
        schema="(Tensor input, Tensor? weight, Tensor? bias, float eps)"
        " -> (Tensor, Tensor, Tensor)",
        doc="Batch norm with the statistics of the input; returns these as well.",
        fake=_fake,
        candidates=_candidates,
        check=_check_training,
        setup=_setup,
        backward=_backward,
        autocast=None,
        public=False,
    ),
    Definition(
        name="batch_norm_update",
        schema="(Tensor(a!)? running_mean, Tensor(b!)? running_var, Tensor mean, Tensor var,"
        " float momentum, int count) -> Tensor",
        doc="Update running statistics with those of `count` elements of each channel.",
        fake=lambda running_mean, running_var, mean, *_: mean.new_empty(0),
        candidates=_update,
        check=_check_update,
        vmap=_refused,
        autocast=None,
        public=False,
    ),
)
