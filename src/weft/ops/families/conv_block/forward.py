"""conv_bn_relu_pool: convolution, batch norm, ReLU and 2 x 2 max pooling.

In evaluation it is one kernel. In training it is two: the convolution, which also sums the results
of each filter, and all the rest; a third one of a single block updates running statistics. Where
another kernel of the convolution is so much faster that it wins without fusion, it is used: see
block/separate.py. Where evaluation needs a gradient, the four ops are called one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.conv_block import separate
from weft.ops.families.conv_block.separate import BLOCK, KEPT, Norm, norm_dtype
from weft.ops.families.conv_block.shape import NAME, Shape, check, shape_of
from weft.ops.families.conv_block.tiles import Tile, tiles
from weft.ops.families.elementwise.copies import contiguous

_TENSORS = 7
"""Inputs of both ops; the others follow."""


# ---- candidates --------------------------------------------------------------------------------
def _shape(request: Request) -> Shape:
    x, weight = request.inputs[:2]
    assert x is not None and weight is not None
    return shape_of(x.shape, weight.shape, request.options["padding"])


class Inputs:
    """The tensors of a call, each contiguous: copied first where it is not."""

    def __init__(self, request: Request, outputs: int) -> None:
        self.pointers: list[Argument] = []
        self.steps: list[Step] = []
        self.scratch: list[Buffer] = []
        self.cost = 0.0
        for number, x in enumerate(request.inputs):
            if x is None:
                self.pointers.append(None)
            elif x.contiguous:
                self.pointers.append(Pointer(number))
            else:
                to = Pointer(len(request.inputs) + outputs + len(self.scratch))
                copy = contiguous(x, Pointer(number), to, request.target)
                self.pointers.append(to)
                self.steps += copy.steps
                self.scratch.append(Buffer(x.shape, x.dtype))
                self.cost += copy.cost

    def spare(self, request: Request, outputs: int) -> Pointer:
        """The first tensor after the copies."""
        return Pointer(len(request.inputs) + outputs + len(self.scratch))


def _ranked(p: Shape, training: bool, target: Target) -> list[tuple[float, Tile]]:
    pairs = [(tile.time(p, training, target), tile) for tile in tiles(p, training, target)]
    # Of equal ones two warps: they share the weights that a block loads.
    return sorted(pairs, key=lambda pair: (pair[0], abs(pair[1].threads - 64), pair[1]))[:KEPT]


def _named(tile: Tile) -> str:
    area = f"{2 * tile.strips} x {2 * tile.pooled_columns}"
    images = f", {tile.images} images" if tile.images > 1 else ""
    return f"{tile.lanes} x {tile.per_lane} filters, {area}{images}, channels by {tile.channels}"


def _template(p: Shape, tile: Tile, training: bool, target: Target) -> str:
    numbers = (p.filter_rows, p.filter_columns, *tile, tile.resident(p, training, target))
    return ", ".join(map(str, numbers))


def _evaluation(request: Request) -> list[Candidate]:
    p, x = _shape(request), request.first
    out = Buffer(p.out, x.dtype)
    if p.images == 0:
        return [Candidate("empty", 0.0, "no images", lambda: Plan((), (out,)))]
    inputs = Inputs(request, 1)
    fused = [
        Candidate(_named(tile), inputs.cost + request.target.launch + time, "one kernel",
                  functools.partial(_evaluation_plan, request, p, tile, inputs, out))
        for time, tile in _ranked(p, False, request.target)
    ]  # fmt: skip
    return [*fused, *separate.evaluation(request, p, out)]


def _evaluation_plan(request: Request, p: Shape, tile: Tile, inputs: Inputs, out: Buffer) -> Plan:
    norm = source.ctype(norm_dtype(request.inputs[3:]))
    template = _template(p, tile, False, request.target)
    kernel = source.kernel(
        "conv_block/conv_block.cu", f"inference<{source.ctype(out.dtype)}, {norm}, {template}>"
    )
    down, across, blocks, groups = tile.grid(p, False)
    args = (*inputs.pointers, Pointer(_TENSORS), request.options["eps"], p.packed(down, across))
    step = Step(kernel, (blocks, groups), (tile.threads,), args, tile.shared(p, False))
    return Plan((*inputs.steps, step), (out,), tuple(inputs.scratch))


def _training(request: Request) -> list[Candidate]:
    p, x = _shape(request), request.first
    statistics = Buffer((p.filters,), torch.float32)
    outputs = (Buffer(p.out, x.dtype), statistics, statistics, Buffer(p.conv, x.dtype))
    inputs = Inputs(request, len(outputs))
    gpu = request.target
    rest = (
        2 * gpu.launch + 1.25 * Layout(x.dtype, p.conv, (), 16).numel * x.itemsize / gpu.bandwidth
    )
    fused = [
        Candidate(_named(tile), inputs.cost + rest + time, "two kernels",
                  functools.partial(_training_plan, request, p, tile, inputs, outputs))
        for time, tile in _ranked(p, True, gpu)
    ]  # fmt: skip
    return [*fused, *separate.training(request, p, outputs)]


def _training_plan(
    request: Request, p: Shape, tile: Tile, inputs: Inputs, outputs: tuple[Buffer, ...]
) -> Plan:
    x, weight, bias, gamma, beta = inputs.pointers
    out, mean, var, y = (Pointer(len(request.inputs) + i) for i in range(4))
    parts = inputs.spare(request, 4)
    down, across, blocks, groups = tile.grid(p, True)
    template = _template(p, tile, True, request.target)
    convolution = source.kernel(
        "conv_block/conv_block.cu", f"convolution<{source.ctype(outputs[0].dtype)}, {template}>"
    )
    args = (x, weight, bias, y, parts, p.packed(down, across))
    steps = (
        Step(convolution, (blocks, groups), (tile.threads,), args, tile.shared(p, True)),
        separate.normalise(request, p, Norm(y, parts, gamma, beta, out, mean, var), blocks),
    )
    scratch = (*inputs.scratch, Buffer((blocks, p.filters, 3), torch.float32))
    return Plan((*inputs.steps, *steps), outputs, scratch)


def _updated(request: Request) -> list[Candidate]:
    mean, dtype = request.inputs[2], norm_dtype(request.inputs[:2])
    assert mean is not None
    options = request.options
    kernel = functools.partial(
        source.kernel, "conv_block/normalise.cu", f"update<{source.ctype(dtype)}>"
    )
    running = (None if t is None else Pointer(i) for i, t in enumerate(request.inputs[:2]))
    args = (*running, Pointer(2), Pointer(3), options["momentum"], float(options["count"]),
            mean.shape[0])  # fmt: skip

    def build() -> Plan:
        # An op returns a tensor: the one that is not needed has no elements.
        step = Step(kernel(), (cdiv(mean.shape[0], BLOCK),), (BLOCK,), args)
        return Plan((step,), (Buffer((0,), torch.float32),))

    return [Candidate("one block", request.target.launch, "", build)]


# ---- definitions -------------------------------------------------------------------------------
def _check(x: Any, weight: Any, bias: Any, mean: Any, var: Any, gamma: Any, beta: Any,
           padding: Any, training: bool, *_: Any) -> None:  # fmt: skip
    norm = {"running_mean": mean, "running_var": var, "bn_weight": gamma, "bn_bias": beta}
    check(x, weight, bias, padding, **norm)
    if training:
        p = shape_of(x.shape, weight.shape, padding)
        if p.images * p.rows * p.columns < 2:
            raise ArgumentError(
                f"weft.ops.{NAME}: more than one value per channel is needed in training",
                got=f"{p.images} images",
            )
        for name, t in (("running_mean", mean), ("running_var", var)):
            if t is not None and not t.is_contiguous():
                raise ArgumentError(
                    f"weft.ops.{NAME}: '{name}' must be contiguous, because it is changed",
                    got=f"strides {t.stride()}", next=f"{name}.contiguous()",
                )  # fmt: skip
    elif mean is None or var is None:
        raise ArgumentError(
            f"weft.ops.{NAME}: running_mean and running_var are needed in evaluation",
            got="None", next="pass them, or training=True",
        )  # fmt: skip


def _check_evaluation(*args: Any) -> None:
    if args[8]:
        raise ArgumentError(
            f"torch.ops.weft.{NAME}: this op does not train, because it changes no argument",
            got="training=True", next=f"call weft.ops.{NAME}",
        )  # fmt: skip
    _check(*args)


def _redirect(op: Any) -> Callable[..., Any]:
    """Sends calls in training, and those that need gradients, to the ops that do it."""
    train, update = library.call(f"{NAME}_training"), library.call(f"{NAME}_update")
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


_SCHEMA = ("(Tensor input, Tensor weight, Tensor? bias, {norm}Tensor? bn_weight{none}, "
           "Tensor? bn_bias{none}, int[2] padding{zero}")  # fmt: skip
DEFINITIONS = (
    Definition(
        name=NAME,
        schema=_SCHEMA.format(norm="Tensor? running_mean, Tensor? running_var, ", none="=None",
                              zero="=0")
        + ", bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
        doc="max_pool2d(relu(batch_norm(conv2d(input, weight, bias, padding=padding))), 2) in one\n"
        "kernel; in two in training, when running_mean and running_var are updated in place.",
        fake=lambda x, weight, bias, mean, var, gamma=None, beta=None, padding=0, *_: x.new_empty(
            shape_of(x.shape, weight.shape, padding).out
        ),
        candidates=_evaluation,
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
        candidates=_training,
        setup=_setup,
        backward=_backward,
        autocast=None,
        public=False,
    ),
    Definition(
        name=f"{NAME}_update",
        schema="(Tensor(a!)? running_mean, Tensor(b!)? running_var, Tensor mean, Tensor var, "
        "float momentum, int count) -> Tensor",
        doc="Updates running statistics.",
        fake=lambda a, b, mean, *_: mean.new_empty(0),
        candidates=_updated,
        autocast=None,
        public=False,
    ),
)  # fmt: skip
