"""group_norm_silu: silu of a group norm of tensors whose channels are last, and its gradients.

torch.compile's backend calls it. The pass of silu, and that of its gradient, are parts of the
norm's kernels, and the result of the norm is not kept.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan
from weft.ops.families.norm import group_norm, groups_last
from weft.ops.families.norm.saving import saving

NAME = groups_last.SILU


def _check(x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> None:
    group_norm.check(x, num_groups, weight, bias, eps)
    if not groups_last.stays_last(x, num_groups):
        raise ArgumentError(
            f"weft.ops.{NAME}: the channels of input must be last in memory",
            got=f"shape {list(x.shape)}, strides {list(x.stride())}",
            next="call group_norm and silu",
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.groups, weight, bias, _ = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, bias, *output[1:])


def _gradients(ctx: Any, dy: Any, *_: Any) -> Any:
    x, weight, bias, mean, rstd = ctx.saved_tensors
    wanted = any(ctx.needs_input_grad[2:4])
    backward = library.call(f"{NAME}_backward")
    dx, dw, db = backward(dy.to(x.dtype), x, weight, bias, mean, rstd, ctx.groups, wanted)
    sums = (
        dw if weight is not None and wanted else None,
        db if bias is not None and wanted else None,
    )
    return dx, None, *sums, None


def _weight(weight: Any, bias: Any) -> torch.dtype:
    return next((w.dtype for w in (weight, bias) if w is not None), torch.float32)


def _backward(request: Request) -> list[Candidate]:
    x = request.inputs[1]
    assert x is not None
    shape = x.shape[1:2] if request.options["weights"] else (0,)
    sums = Buffer(shape, _weight(*request.inputs[2:4]), zeroed=x.numel == 0)
    outputs = (groups_last.result(x), sums, sums)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    return groups_last.backward(request, outputs, group_norm.weight_sums)


def _fake_backward(dy: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    shape = x.shape[1:2] if rest[-1] else (0,)
    made = (x.new_empty(shape, dtype=_weight(weight, bias)) for _ in range(2))
    return group_norm.like(x, rest[-2]), *made


def _definition(saved: bool) -> Definition:
    return Definition(
        name=f"{NAME}_forward" if saved else NAME,
        schema="(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None,"
        f" float eps=1e-05) -> {'(Tensor, Tensor, Tensor)' if saved else 'Tensor'}",
        doc="silu(group_norm(input, …)), of a tensor whose channels are last.",
        fake=functools.partial(group_norm.fake, saved),
        candidates=functools.partial(group_norm.forward, saved),
        check=_check,
        setup=_setup if saved else None,
        backward=_gradients if saved else None,
        redirect=None if saved else saving(NAME, 1),
        autocast=None,
        public=False,
    )


DEFINITIONS = (
    _definition(False),
    _definition(True),
    Definition(
        name=f"{NAME}_backward",
        schema="(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd,"
        " int num_groups, bool weights) -> (Tensor, Tensor, Tensor)",
        doc="The gradients of group_norm_silu's input and parameters.",
        fake=_fake_backward,
        candidates=_backward,
        autocast=None,
        public=False,
    ),
)
