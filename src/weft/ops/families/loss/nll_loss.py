"""nll_loss: the negative log-likelihood of labels, forward and backward."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.layouts import dense, merged
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.core.rows import BLOCK
from weft.ops.families.loss import model
from weft.ops.families.loss.classes import call_of, check, class_dim, label_shape, save
from weft.ops.families.loss.structs import LogitStrides

FILE = "loss/nll.cu"


def _candidates(backward: bool, request: Request) -> list[Candidate]:
    x = request.inputs[int(backward)]
    assert x is not None
    shape = x.shape if backward else _loss_shape(x, request.options["reduction"])
    out = Buffer(shape, x.dtype, zeroed=backward)
    if x.numel == 0 and 0 in shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    moved = x.numel * x.itemsize if backward else 0
    time = model.stream_time(request.target, moved, launches=1 + backward)
    build = functools.partial(_plan, backward, request, out)
    return [Candidate("labels", time, "one element per label", build)]


def _plan(backward: bool, request: Request, out: Buffer) -> Plan:
    strides = None if backward else _strides(request.first)
    if strides is not None:  # no copy is needed, whatever the order in memory
        x = request.first
        plain = x._replace(strides=dense(x.shape))
        request = replace(request, inputs=(plain, *request.inputs[1:]))
    call = call_of(request, FILE, (out,), first=int(backward), loss=not backward, gradient=backward)
    blocks = max(1, min(cdiv(call.count, BLOCK), 4 * request.target.sms))
    if backward:
        args = (*call.labels(), call.gradient, call.problem)
        kernel = call.kernel("nll_gradient")
    else:
        loss, partials, _, counter = call.results(blocks)
        inner = call.view.inner
        logits = strides or LogitStrides(call.view.n * inner, inner, inner, 0, 1)
        args = (call.x, call.target, call.weight, loss, partials, counter, call.problem,
                logits.pack())  # fmt: skip
        kernel = call.kernel("nll")
    return call.tensors.plan(Step(kernel, (blocks,), (BLOCK,), args, early=True))


def _strides(x: Layout) -> LogitStrides | None:
    """The strides of logits; None if the dimensions behind the classes are too many."""
    dim = class_dim(x)
    behind = merged(x.shape[dim + 1 :], [x.strides[dim + 1 :]])
    if len(behind.sizes) > 2:
        return None
    far, near = (0, *behind.strides[0])[-2:]
    return LogitStrides(x.strides[0] if dim else 0, x.strides[dim], behind.sizes[-1], far, near)


def _loss_shape(x: Any, reduction: str) -> tuple[int, ...]:
    return label_shape(x) if reduction == "none" else ()


def _check(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> None:
    check("nll_loss", input, target, weight, reduction)


def _backward(ctx: Any, grad: Any) -> Any:
    if any(ctx.needs_input_grad[2:]):  # torch leaves out arguments that have their defaults
        raise ArgumentError(
            "weft.ops.nll_loss: there is no gradient of 'weight'",
            got="a weight that requires a gradient",
            next="weight.detach()",
        )
    dx = library.call("nll_loss_backward")(grad, *ctx.saved_tensors, *ctx.options)
    return dx, None, None, None, None


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    dy, _, target, weight, *ctx.options = inputs
    ctx.shape = dy.shape
    ctx.save_for_backward(target, weight)


def _second(ctx: Any, v: Any) -> Any:
    """The gradient is linear in that of the loss, and does not depend on the input."""
    target, weight = ctx.saved_tensors
    dy = library.call("nll_loss")(v.contiguous(), target, weight, *ctx.options)
    return dy.reshape(ctx.shape), None, None, None, None, None


def _fake(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    made: torch.Tensor = input.new_empty(_loss_shape(input, reduction))
    return made


_OPTIONS = 'int ignore_index=-100, str reduction="mean"'
DEFINITIONS = (
    Definition(
        name="nll_loss",
        schema=f"(Tensor input, Tensor target, Tensor? weight=None, {_OPTIONS}) -> Tensor",
        doc="""The negative log-likelihood of labels, as torch.nn.functional.nll_loss.

        Shapes and labels are those of cross_entropy; input has log-probabilities.
        """,
        fake=_fake,
        candidates=functools.partial(_candidates, False),
        check=_check,
        setup=functools.partial(save, 3),
        backward=_backward,
    ),
    Definition(
        name="nll_loss_backward",
        schema=f"(Tensor dy, Tensor input, Tensor target, Tensor? weight, {_OPTIONS}) -> Tensor",
        doc="The gradient of nll_loss's input.",
        fake=lambda dy, input, *rest: input.new_empty(input.shape),
        candidates=functools.partial(_candidates, True),
        setup=_setup_backward,
        backward=_second,
        public=False,
    ),
)
