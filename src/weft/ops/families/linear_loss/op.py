"""linear_cross_entropy: definitions, argument checks and gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import eager, library
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.bind.derive import derive
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.linear_loss.plans import candidates
from weft.ops.families.loss.classes import DTYPES, LABELS, check_reduction, save
from weft.ops.families.loss.scale import scale_unless_one

NAME = "linear_cross_entropy"
GROUP = "losses"


# ---- checks ------------------------------------------------------------------------------------
def _check(
    input: Any, weight: Any, target: Any, bias: Any, ignore_index: int, reduction: str,
    label_smoothing: float, chunk: int | None, *_: Any,
) -> None:  # fmt: skip
    check_dtype(NAME, "input", input, DTYPES, next="convert it: input.float()")
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and x.dtype is not input.dtype:
            raise ArgumentError(
                f"weft.ops.{NAME}: {name} has another dtype than input",
                got=f"{x.dtype}, input {input.dtype}",
                allowed="the same for all",
                next=f"convert it: {name}.to(input.dtype)",
            )
    if not input.dim() or weight.dim() != 2 or input.shape[-1] != weight.shape[1]:
        raise ArgumentError(
            f"weft.ops.{NAME}: input and weight have incompatible shapes",
            got=f"input {list(input.shape)}, weight {list(weight.shape)}",
            allowed="input […, in], weight [classes, in]",
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ArgumentError(
            f"weft.ops.{NAME}: bias has shape {tuple(bias.shape)}, expected {(weight.shape[0],)}",
            allowed="one number for each row of the weight",
        )
    if target.dtype not in LABELS:
        raise ArgumentError(
            f"weft.ops.{NAME}: 'target' must have the labels of classes",
            got=str(target.dtype),
            allowed="int64, int32, uint8",
            next="convert it: target.long()",
        )
    if target.shape != input.shape[:-1]:
        raise ArgumentError(
            f"weft.ops.{NAME}: target has shape {list(target.shape)}, input {list(input.shape)}",
            allowed="a label for each row of input: its shape without the last dimension",
        )
    if 0 in weight.shape:
        raise ArgumentError(
            f"weft.ops.{NAME}: weight must have elements, got shape {list(weight.shape)}"
        )
    check_reduction(NAME, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"weft.ops.{NAME}: label_smoothing must be 0 to 1, got {label_smoothing}"
        )
    if chunk is not None and chunk < 1:
        raise ArgumentError(f"weft.ops.{NAME}: chunk must be at least 1, got {chunk}")


# ---- gradients ---------------------------------------------------------------------------------
def _wanted(needed: Any) -> tuple[bool, bool, bool]:
    """True for those gradients of input, weight and bias that are needed."""
    # torch leaves out arguments that have their defaults.
    needed = (*needed, *[False] * 4)
    return bool(needed[0]), bool(needed[1]), bool(needed[3])


def _redirect(op: Callable[..., Any]) -> Callable[..., Any]:
    """Eager calls that want gradients of a number get them with the loss, chunk by chunk."""
    with_gradient = library.call(f"{NAME}_with_gradient")

    def redirected(input: Any, weight: Any, target: Any, bias: Any, *options: Any) -> Any:
        # float16 would lose small gradients before they are multiplied by a scaled loss's.
        is_other = options[1] == "none" or input.dtype is torch.float16
        if is_other or not eager.wanted((input, weight, bias)):
            return NotImplemented
        needed = (x is not None and x.requires_grad for x in (input, weight, bias))
        return with_gradient(input, weight, target, bias, *options, *needed)[0]

    return redirected


def _backward(ctx: Any, grad: Any) -> Any:
    """Compute the logits once more."""
    wanted = _wanted(ctx.needs_input_grad)
    return _gradients(wanted, _again(ctx.saved_tensors, grad, ctx.options, wanted), 4)


def _again(saved: Any, grad: Any, options: Any, wanted: tuple[bool, bool, bool]) -> Any:
    call = library.call(f"{NAME}_backward")
    return call(grad.float(), *saved, *options, *wanted)


def _gradients(wanted: tuple[bool, bool, bool], found: Any, options: int) -> tuple[Any, ...]:
    """Gradients of all arguments, of those that were found."""
    dx, dw, db = (g if want else None for g, want in zip(found, wanted, strict=True))
    return (dx, dw, None, db, *[None] * options)


def _setup_fused(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)  # only the first result has a gradient
    ctx.save_for_backward(*inputs[:4], *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.options, ctx.wanted = inputs[4:8], inputs[8:]


def _backward_fused(ctx: Any, grad: Any, *_: Any) -> Any:
    saved, found = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
    keep: bool = torch._C._autograd._get_current_graph_task_keep_graph()
    # The saved gradients are handed over, so they must not be needed again.
    if keep or torch.is_grad_enabled() or not eager.plain():
        found = _again(saved, grad, ctx.options, ctx.wanted)
    else:
        for x in found:
            if x.numel():
                scale_unless_one(x, grad)
    return _gradients(ctx.wanted, found, 7)


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.options, ctx.wanted = inputs[5:9], inputs[9:]
    ctx.set_materialize_grads(False)


def _second(ctx: Any, *v: Any) -> Any:
    """The second derivative, by torch's formulas."""
    grad, x, w, target, *bias = ctx.saved_tensors
    ignore_index, reduction, label_smoothing, _ = ctx.options
    inputs = [grad, x, w, *(b for b in bias if b is not None)]
    pairs = [(i, g) for i, g in enumerate(v) if ctx.wanted[i] and g is not None]

    def first(grad: Any, x: Any, w: Any, b: Any = None) -> Any:
        logits = torch.nn.functional.linear(x, w, b).flatten(0, -2)
        loss = torch.nn.functional.cross_entropy(
            logits.float(), target.flatten().long(), ignore_index=ignore_index,
            reduction=reduction, label_smoothing=label_smoothing,
        )  # fmt: skip
        points = (x, w, b)
        return torch.autograd.grad(
            loss, [points[i] for i, _ in pairs], grad.reshape(loss.shape), create_graph=True
        )

    found = derive(first, inputs, [g for _, g in pairs])
    db = found[3] if bias[0] is not None else None
    return (*found[:3], None, db, *[None] * 7)


# ---- definitions -------------------------------------------------------------------------------
def _fake(
    input: Any, weight: Any, target: Any, bias: Any = None, ignore_index: int = -100,
    reduction: str = "mean", *rest: Any, **named: Any,
) -> Any:  # fmt: skip
    shape = target.shape if reduction == "none" else ()
    return input.new_empty(shape, dtype=torch.float32)


def _fake_gradients(input: Any, weight: Any, wanted: Any) -> tuple[Any, ...]:
    shapes = (input.shape, weight.shape, weight.shape[:1])
    return tuple(
        input.new_empty(shape if want else (0,)) for shape, want in zip(shapes, wanted, strict=True)
    )


_TENSORS = "Tensor input, Tensor weight, Tensor target, Tensor? bias"
_OPTIONS = "int ignore_index{}, str reduction{}, float label_smoothing{}, int? chunk{}"
_GIVEN = _OPTIONS.format(*[""] * 4) + ", bool of_input, bool of_weight, bool of_bias"
DEFINITIONS = (
    Definition(
        name=NAME,
        schema=f"({_TENSORS}=None, "
        + _OPTIONS.format("=-100", '="mean"', "=0.0", "=None")
        + ") -> Tensor",
        doc="""cross_entropy(linear(input, weight, bias), target) without the logits in memory.

        input has shape […, in], weight [classes, in], and target a label for each row of input:
        0 to classes - 1, or ignore_index. The loss is in float32, also for 16-bit inputs.

        The logits of `chunk` rows are in memory at a time; None chooses a number. An eager call
        that needs a gradient computes it chunk by chunk with the loss, from one computation of the
        logits, and sums the gradient of the weight in float32; `backward` multiplies by the
        gradient of the loss, unless that is 1. For float16, for reduction="none" and under
        torch.compile, `backward` computes the logits once more instead. The idea is that of the
        fused losses of Liger Kernel and of Cut Cross-Entropy.
        """,
        fake=_fake,
        candidates=functools.partial(candidates, True, False),
        check=_check,
        setup=functools.partial(save, 4),
        backward=_backward,
        redirect=_redirect,
        autocast=LOWER,
    ),
    Definition(
        name=f"{NAME}_with_gradient",
        traceable=False,
        schema=f"({_TENSORS}, {_GIVEN}) -> (Tensor, Tensor, Tensor, Tensor)",
        doc="The loss, and its gradients with respect to input, weight and bias.",
        fake=lambda input, weight, target, bias, *rest: (
            _fake(input, weight, target, bias, *rest),
            *_fake_gradients(input, weight, rest[4:]),
        ),
        candidates=functools.partial(candidates, True, True),
        check=_check,
        setup=_setup_fused,
        backward=_backward_fused,
        autocast=LOWER,
        public=False,
    ),
    Definition(
        name=f"{NAME}_backward",
        schema=f"(Tensor dy, {_TENSORS}, {_GIVEN}) -> (Tensor, Tensor, Tensor)",
        doc="The gradients of input, weight and bias, from the gradient of the loss.",
        fake=lambda dy, input, weight, target, bias, *rest: _fake_gradients(
            input, weight, rest[4:]
        ),
        candidates=functools.partial(candidates, False, True),
        setup=_setup_backward,
        backward=_second,
        autocast=None,
        public=False,
    ),
)
