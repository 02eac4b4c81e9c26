"""conv_bn_relu_pool: definitions, argument checks and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.function import Definition
from weft.ops.families.conv_block import backward, forward
from weft.ops.families.conv_block.shape import NAME, check, shape_of


def _check(x: Any, weight: Any, bias: Any, mean: Any, var: Any, gamma: Any, beta: Any,
           padding: Any, training: bool, *_: Any) -> None:  # fmt: skip
    norm = {"running_mean": mean, "running_var": var, "bn_weight": gamma, "bn_bias": beta}
    check(x, weight, bias, padding, **norm)
    if training:
        p = shape_of(x.shape, weight.shape, padding)
        if p.images * p.rows * p.columns < 2:
            raise ArgumentError(
                f"weft.ops.{NAME}: training needs more than one value per channel",
                got=f"{p.images} images",
            )
        for name, t in (("running_mean", mean), ("running_var", var)):
            if t is not None and not t.is_contiguous():
                raise ArgumentError(
                    f"weft.ops.{NAME}: {name} must be contiguous, because it is changed",
                    got=f"strides {t.stride()}",
                    next=f"{name}.contiguous()",
                )
    elif mean is None or var is None:
        raise ArgumentError(
            f"weft.ops.{NAME}: evaluation needs running_mean and running_var",
            got="None",
            next="pass them, or training=True",
        )


def _check_evaluation(*args: Any) -> None:
    if args[8]:
        raise ArgumentError(
            f"torch.ops.weft.{NAME}: this op does not train, because it changes no argument",
            got="training=True",
            next=f"call weft.ops.{NAME}",
        )
    _check(*args)


def _redirect(op: Any) -> Callable[..., Any]:
    """Send calls in training, and those that need gradients, to the ops that do it.

    Evaluation that needs a gradient calls the four ops one after the other.
    """
    train, update = library.call(f"{NAME}_training"), library.call("batch_norm_update")
    conv, norm = library.call("conv2d"), library.call("batch_norm")
    relu, pool = library.call("relu"), library.call("max_pool2d")

    def redirected(
        x: Any, weight: Any, bias: Any, mean: Any, var: Any, gamma: Any, beta: Any, padding: Any,
        training: bool, momentum: float, eps: float,
    ) -> Any:  # fmt: skip
        tensors = (x, weight, bias, gamma, beta)
        _check(x, weight, bias, mean, var, gamma, beta, padding, training)
        if training:
            pads = [padding, padding] if isinstance(padding, int) else [padding[0], padding[-1]]
            out, *found, y = train(x, weight, bias, gamma, beta, pads, eps)
            if mean is not None or var is not None:
                update(mean, var, *found, momentum, y.numel() // y.shape[1])
                for changed in (mean, var):
                    if changed is not None and not torch.compiler.is_compiling():
                        torch.autograd.graph.increment_version(changed)
            return out
        if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
            return pool(relu(norm(conv(x, weight, bias, 1, padding), mean, var, gamma, beta,
                                  False, 0.0, eps)), 2)  # fmt: skip
        return NotImplemented

    return redirected


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, bias, gamma, beta, ctx.padding, ctx.eps = inputs
    ctx.biased = None if bias is None else bias.dtype
    ctx.save_for_backward(x, weight, gamma, beta, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # zeros for the results that are only saved are kernels


def _backward(ctx: Any, grad: Any, *_: Any) -> Any:
    x, weight, gamma, beta, mean, var, y = ctx.saved_tensors
    call = library.call(f"{NAME}_backward")
    dy, dgamma, dbeta = call(grad, y, mean, var, gamma, beta, ctx.eps)
    options = ([1, 1], list(ctx.padding), [1, 1], 1)
    needs = ctx.needs_input_grad
    dx = (
        library.call("conv_backward_input")(dy, weight, list(x.shape), *options)
        if needs[0]
        else None
    )
    dw = (
        library.call("conv_backward_weight")(dy, x, list(weight.shape), *options)
        if needs[1]
        else None
    )
    # Batch norm takes a bias away again: its gradient is zero.
    db = weight.new_zeros(weight.shape[0]) if ctx.biased else None
    return (dx, dw, db, dgamma if gamma is not None else None, dbeta if beta is not None else None,
            None, None)  # fmt: skip


def _fake_training(
    x: Any, weight: Any, bias: Any, gamma: Any, beta: Any, padding: Any, eps: Any
) -> Any:
    p = shape_of(x.shape, weight.shape, padding)
    statistics = (x.new_empty(p.filters, dtype=torch.float32) for _ in range(2))
    return x.new_empty(p.out), *statistics, x.new_empty(p.conv)


_SCHEMA = (
    "(Tensor input, Tensor weight, Tensor? bias, {norm}Tensor? bn_weight{none}, "
    "Tensor? bn_bias{none}, int[2] padding{zero}"
)
_FORWARD = (
    Definition(
        name=NAME,
        schema=_SCHEMA.format(
            norm="Tensor? running_mean, Tensor? running_var, ", none="=None", zero="=0"
        )
        + ", bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
        doc="max_pool2d(relu(batch_norm(conv2d(input, weight, bias, padding=padding))), 2) in one\n"
        "kernel; in two in training, when running_mean and running_var are updated in place.",
        fake=lambda x, weight, bias, mean, var, gamma=None, beta=None, padding=0, *_: x.new_empty(
            shape_of(x.shape, weight.shape, padding).out
        ),
        candidates=forward.evaluation,
        check=_check_evaluation,
        redirect=_redirect,
        autocast=None,
    ),
    Definition(
        name=f"{NAME}_training",
        schema=_SCHEMA.format(norm="", none="", zero="")
        + ", float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        doc="The result, the mean and the variance of each filter, and the convolution's result.",
        fake=_fake_training,
        candidates=forward.training,
        setup=_setup,
        backward=_backward,
        autocast=None,
        public=False,
    ),
)

GROUP = "convolution"
DEFINITIONS = (*backward.DEFINITIONS, *_FORWARD)
