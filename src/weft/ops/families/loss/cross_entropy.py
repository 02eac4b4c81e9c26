"""cross_entropy, forward and backward, and both from one read of the logits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import eager, library
from weft.ops.core.bind.derive import derive
from weft.ops.core.function import Definition
from weft.ops.families.loss.classes import check, label_shape, save
from weft.ops.families.loss.cross_entropy_plans import candidates
from weft.ops.families.loss.scale import scale_unless_one


# ---- definitions -------------------------------------------------------------------------------
def _check(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> None:
    check("cross_entropy", input, target, weight, reduction, probabilities=True)
    if target.is_floating_point() and ignore_index >= 0:
        raise ArgumentError(
            "weft.ops.cross_entropy: probabilities have no label to ignore",
            got=f"ignore_index={ignore_index}, a target of {target.dtype}",
            next="give such rows the weight 0: multiply them by 0 in the target",
        )
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"weft.ops.cross_entropy: label_smoothing must be 0 to 1, got {label_smoothing}"
        )


def _backward(ctx: Any, grad: Any) -> Any:
    """Read the logits once more."""
    _refuse_others(ctx.needs_input_grad)
    dx = library.call("cross_entropy_backward")(grad, *ctx.saved_tensors, *ctx.options)
    return dx, None, None, None, None, None


def _refuse_others(wanted: Sequence[bool]) -> None:
    # torch leaves out arguments that have their defaults.
    for name, needed in zip(("target", "weight"), wanted[1:], strict=False):
        if needed:
            raise ArgumentError(
                f"weft.ops.cross_entropy: there is no gradient of '{name}'",
                got=f"a {name} that requires a gradient",
                next=f"{name}.detach()",
            )


def _redirect(op: Callable[..., Any]) -> eager.Redirect:
    """Eager calls that want a gradient of a number get it with the loss, from one read."""
    saving = library.function("cross_entropy_with_gradient")

    def given(*args: Any) -> Any:
        input, _, _, _, reduction, _ = args
        # float16 would lose small gradients before they are multiplied by a scaled loss's.
        is_other = reduction == "none" or input.dtype is torch.float16 or not input.requires_grad
        return None if is_other else args

    return eager.Redirect(lambda *args: NotImplemented, saving, 1, given)


def _setup_fused(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)  # the second result has no gradient
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.options = inputs[3:]


def _backward_fused(ctx: Any, grad: Any, *_: Any) -> Any:
    _refuse_others(ctx.needs_input_grad)
    *inputs, dx = ctx.saved_tensors
    keep: bool = torch._C._autograd._get_current_graph_task_keep_graph()
    # The saved gradient is handed over, so it must not be needed again.
    if keep or torch.is_grad_enabled() or not eager.plain():
        dx = library.call("cross_entropy_backward")(grad, *inputs, *ctx.options)
    else:
        scale_unless_one(dx, grad)
    return dx, None, None, None, None, None


def _second(ctx: Any, v: Any) -> Any:
    """The second derivative, by torch's formulas."""
    grad, x, target, weight = ctx.saved_tensors
    ignore_index, reduction, label_smoothing = ctx.options
    target = target if target.is_floating_point() else target.long()

    def first(grad: Any, x: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(
            x, target, weight, ignore_index=ignore_index, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip
        return torch.autograd.grad(loss, x, grad, create_graph=True)

    return (*derive(first, [grad, x], [v]), None, None, None, None, None)


def _fake(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    return input.new_empty(label_shape(input) if reduction == "none" else ())


_OPTIONS = 'int ignore_index=-100, str reduction="mean", float label_smoothing=0.0'
DEFINITIONS = (
    Definition(
        name="cross_entropy",
        schema=f"(Tensor input, Tensor target, Tensor? weight=None, {_OPTIONS}) -> Tensor",
        doc="""The cross-entropy of logits and labels, as torch.nn.functional.cross_entropy.

        input has shape [C], [N, C] or [N, C, d1, …], and target the same without C: labels from 0
        to C - 1, or ignore_index. Another label fails an assertion of the kernel, as in PyTorch;
        on the simulated GPU that is weft.AssertFailed. Rows with ignore_index have the gradient 0,
        even if they have NaN. A floating-point target has the shape of input: probabilities of
        the classes.

        An eager call that needs a gradient computes it together with the loss, and reads the logits
        once. `backward` multiplies it by the gradient of the loss, unless that is 1. For float16,
        for reduction="none" and under torch.compile, `backward` reads the logits once more instead.
        """,
        fake=_fake,
        candidates=functools.partial(candidates, True, False, 0),
        check=_check,
        setup=functools.partial(save, 3),
        backward=_backward,
        redirect=_redirect,
    ),
    Definition(
        name="cross_entropy_with_gradient",
        traceable=False,
        schema=f"(Tensor input, Tensor target, Tensor? weight, {_OPTIONS}) -> (Tensor, Tensor)",
        doc="The loss, and its gradient with respect to the logits.",
        fake=lambda input, *rest: (_fake(input, *rest), input.new_empty(input.shape)),
        candidates=functools.partial(candidates, True, True, 0),
        check=_check,
        setup=_setup_fused,
        backward=_backward_fused,
        public=False,
    ),
    Definition(
        name="cross_entropy_backward",
        schema=f"(Tensor dy, Tensor input, Tensor target, Tensor? weight, {_OPTIONS}) -> Tensor",
        doc="The gradient of the logits, from the gradient of the loss.",
        fake=lambda dy, input, *rest: input.new_empty(input.shape),
        candidates=functools.partial(candidates, False, True, 1),
        setup=functools.partial(save, 4),
        backward=_second,
        public=False,
    ),
)
