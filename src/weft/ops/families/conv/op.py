"""Convolution of one and two dimensions: conv1d, conv2d and their backward passes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.conv import arguments, candidates, fused
from weft.ops.families.conv.geometry import is_inside

OPTIONS = "int[{dims}] stride=1, int[{dims}] padding=0, int[{dims}] dilation=1, int groups=1"
_SHARED = 5
"""Options of all passes: these and the precision."""


# ---- gradients ---------------------------------------------------------------------------------
def _conv(dims: int) -> Any:
    return library.call(f"conv{dims}d")


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, _, *options = inputs
    ctx.save_for_backward(x, weight)
    # A number holds for as many dimensions as the forward pass has.
    ctx.options = [[v] if isinstance(v, int) else list(v) for v in options[:3]] + options[3:]


def _backward(ctx: Any, grad: Any) -> Any:
    x, weight = ctx.saved_tensors
    wants, dims = ctx.needs_input_grad, weight.dim() - 2
    data = library.call("conv_backward_input") if wants[0] else None
    weights = library.call("conv_backward_weight") if wants[1] else None
    over = [d for d in range(grad.dim()) if d != grad.dim() - dims - 1]
    if data or weights:
        grad = _in_format(grad, x)
    # Else autograd copies it into the order of the weight, by a slow kernel.
    order = {"channels_last": True} if arguments.has_last(weight) else {}
    return (
        data(grad, weight, list(x.shape), *ctx.options) if data else None,
        weights(grad, x, list(weight.shape), *ctx.options, **order) if weights else None,
        # torch leaves out arguments that have their defaults.
        library.call("sum")(grad, over) if wants[2:3] == (True,) else None,
        *[None] * len(ctx.options),
    )


def _in_format(grad: Any, x: Any) -> Any:
    """The gradient with its channels last where x has them: one copy serves both passes."""
    if (
        not arguments.has_last(x)
        or not grad.is_contiguous()
        or arguments.has_last(grad)
        or grad.numel() == 0
    ):
        return grad
    if grad.is_contiguous(memory_format=torch.channels_last):
        return grad
    return library.call("permute")(grad, [0, 2, 3, 1]).permute(0, 3, 1, 2)


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    grad, other, _, *options = inputs
    ctx.options, ctx.others = options[:_SHARED], len(inputs) - 2
    ctx.save_for_backward(grad, other)


def _backward_of_input(ctx: Any, grad_dx: Any) -> Any:
    grad, weight = ctx.saved_tensors
    wants = ctx.needs_input_grad
    conv = _conv(weight.dim() - 2) if wants[0] else None
    weights = library.call("conv_backward_weight") if wants[1] else None
    return (
        conv(grad_dx, weight, None, *ctx.options) if conv else None,
        weights(grad, grad_dx, list(weight.shape), *ctx.options) if weights else None,
        *[None] * ctx.others,
    )


def _backward_of_weight(ctx: Any, grad_dw: Any) -> Any:
    grad, x = ctx.saved_tensors
    wants = ctx.needs_input_grad
    conv = _conv(grad_dw.dim() - 2) if wants[0] else None
    data = library.call("conv_backward_input") if wants[1] else None
    return (
        conv(x, grad_dw, None, *ctx.options) if conv else None,
        data(grad, grad_dw, list(x.shape), *ctx.options) if data else None,
        *[None] * ctx.others,
    )


# ---- calls -------------------------------------------------------------------------------------
def _redirect(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """Turn words for padding into numbers."""

    def redirected(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
                   groups: int, precision: str) -> Any:  # fmt: skip
        if not isinstance(padding, str):
            return NotImplemented
        pads = arguments.numbers(name, padding, weight.shape[2:], stride, dilation)
        # With numbers the fast path has a plan; torch.compile traces the op itself.
        call = op if torch.compiler.is_compiling() else library.call(name)
        return call(x, weight, bias, stride, pads, dilation, groups, precision)

    return redirected


def _fake_input(dy: Any, weight: Any, input_size: Any, *options: Any) -> Any:
    inside = is_inside(dy.shape, dy.stride())
    last = len(input_size) == 4 and (inside or arguments.has_last(weight))
    return arguments.empty(dy, tuple(input_size), last)


def _fake_weight(dy: Any, x: Any, weight_size: Any, *options: Any) -> Any:
    return arguments.empty(x, tuple(weight_size), len(options) > _SHARED and options[_SHARED])


def _check_input(dy: Any, weight: Any, size: Any, *options: Any) -> None:
    dims = weight.dim() - 2
    x = dy.new_empty(1).expand(tuple(size)) if math.prod(size) else dy.new_empty(tuple(size))
    arguments.check("conv_backward_input", dims, x, weight, None, *options)


def _check_wide(dy: Any, x: Any, *rest: Any) -> None:
    check_dtype("conv_backward_weight_wide", "dy", dy, (torch.float16, torch.bfloat16))


def _forward_definition(dims: int) -> Definition:
    name = f"conv{dims}d"
    return Definition(
        name=name,
        schema=f"(Tensor input, Tensor weight, Tensor? bias=None, {OPTIONS.format(dims=dims)}, "
        'str precision="fp32") -> Tensor',
        doc=f"""Convolution of {dims} dimension{"s" * (dims > 1)}, as torch.nn.functional.{name}.

        padding is a number, one for each dimension, two for each (before and after), "valid" or
        "same". precision="tf32" computes products of float32 on tensor cores with 10 bits of
        mantissa; float16 and bfloat16 are always multiplied on tensor cores and summed in float32.
        """,
        fake=functools.partial(arguments.fake, name, dims),
        candidates=functools.partial(candidates.forward, dims),
        check=functools.partial(arguments.check, name, dims),
        setup=_setup,
        backward=_backward,
        autocast=LOWER,
        redirect=functools.partial(_redirect, name),
    )


_BACKWARD = (
    'int[] stride=[1], int[] padding=[0], int[] dilation=[1], int groups=1, str precision="fp32"'
)

GROUP = "convolution"
DEFINITIONS = (
    _forward_definition(1),
    _forward_definition(2),
    Definition(
        name="conv_backward_input",
        schema=f"(Tensor dy, Tensor weight, int[] input_size, {_BACKWARD}) -> Tensor",
        doc="The gradient of a convolution's input.",
        fake=_fake_input,
        candidates=candidates.backward_input,
        check=_check_input,
        setup=_setup_backward,
        backward=_backward_of_input,
        autocast=None,
        public=False,
    ),
    Definition(
        name="conv_backward_weight",
        schema=f"(Tensor dy, Tensor input, int[] weight_size, {_BACKWARD}, "
        "bool channels_last=False) -> Tensor",
        doc="The gradient of a convolution's weight; `channels_last` is its order in memory.",
        fake=_fake_weight,
        candidates=candidates.backward_weight,
        setup=_setup_backward,
        backward=_backward_of_weight,
        autocast=None,
        public=False,
    ),
    Definition(
        name="conv_backward_weight_wide",
        schema=f"(Tensor dy, Tensor input, int[] weight_size, {_BACKWARD}, "
        "bool channels_last=False) -> Tensor",
        doc="The same of 16-bit tensors, in float32.",
        fake=lambda dy, x, size, *options: _fake_weight(dy, x, size, *options).float(),
        candidates=candidates.backward_weight_wide,
        check=_check_wide,
        autocast=None,
        public=False,
    ),
    *fused.DEFINITIONS,
)
