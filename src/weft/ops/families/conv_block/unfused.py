"""The block as a convolution of its own and kernels for the rest.

A fused kernel computes the definition in single precision. Winograd's algorithm and tensor cores
need fewer or faster products: for many channels they win although the convolution's results go
through memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.conv import candidates, job, winograd
from weft.ops.families.conv.geometry import images
from weft.ops.families.conv_block.model import TRAFFIC
from weft.ops.families.conv_block.shape import ConvBlockSizes

BLOCK = 256
WINDOWS = 4
"""Windows that a thread reads before it knows the statistics."""
LISTED = 6
"""Candidates that are offered: those with the least modelled time."""


def images_each(p: ConvBlockSizes, target: Target) -> int:
    """Images of a filter that a block has: enough blocks for the GPU, but not many more."""
    rows, columns = p.pooled
    least = cdiv(BLOCK, rows * columns)
    return max(least, cdiv(p.images * p.filters, 4 * target.sms), 1)


def norm_dtype(norm: tuple[Layout | None, ...]) -> torch.dtype:
    """The dtype of the batch norm's tensors."""
    return next((t.dtype for t in norm if t is not None), torch.float32)


def _grid(p: ConvBlockSizes, target: Target) -> tuple[int, int]:
    return p.filters, cdiv(p.images, images_each(p, target))


def _reads(request: Request) -> bool:
    """False for vectors with gaps: no kernel of the rest reads them."""
    return all(t is None or t.contiguous for t in request.inputs[3:])


def _given(request: Request) -> tuple[Pointer | None, ...]:
    """The tensors of the batch norm."""
    return tuple(
        None if t is None else Pointer(number)
        for number, t in enumerate(request.inputs)
        if number >= 3
    )


def _convolution(request: Request, outputs: int) -> Request:
    """The convolution of a request, to the tensor after so many outputs."""
    options = {
        "stride": [1, 1], "padding": request.options["padding"], "dilation": [1, 1],
        "groups": 1, "precision": "fp32",
    }  # fmt: skip
    none = (None,) * (len(request.inputs) - 3 + outputs)
    return replace(request, op="conv2d", inputs=(*request.inputs[:3], *none), options=options)


def _convolutions(
    request: Request, outputs: int, more: float, build: Callable[[Plan], Plan]
) -> list[Candidate]:
    """Candidates for the convolution to the tensor after so many outputs, and what follows it.

    more   modelled seconds of what follows
    build  makes the plan of a request, given that of its convolution
    """
    if not _reads(request):
        return []
    conv = _convolution(request, outputs)
    made = sorted(candidates.forward(2, conv, preserve_format=False), key=lambda c: c.cost)[:LISTED]
    return [
        Candidate(f"convolution {c.name}", c.cost + more, c.why,
                  functools.partial(lambda c: build(c.build()), c))
        for c in made
    ]  # fmt: skip


def evaluation(request: Request, p: ConvBlockSizes, out: Buffer) -> list[Candidate]:
    """Candidates of two stages: the convolution, then all the rest."""
    gpu, count = request.target, len(request.inputs)
    moved = TRAFFIC.apply * math.prod(p.conv) * request.first.itemsize

    def build(conv: Plan) -> Plan:
        types = f"{source.ctype(out.dtype)}, {source.ctype(norm_dtype(request.inputs[3:]))}"
        args = (Pointer(count + 1), *_given(request), Pointer(count), request.options["eps"],
                images_each(p, gpu), p.packed())  # fmt: skip
        kernel = source.kernel("conv_block/normalise.cu", f"apply<{types}, {WINDOWS}>")
        step = Step(kernel, _grid(p, gpu), (BLOCK,), args)
        return Plan((*conv.steps, step), (out,), (*conv.outputs, *conv.scratch))

    made = _convolutions(request, 1, gpu.launch + moved / gpu.bandwidth, build)
    return [*_pooled_winograd(request, p, out), *made]


def _pooled_winograd(request: Request, p: ConvBlockSizes, out: Buffer) -> list[Candidate]:
    """Candidates whose last transform pools: the convolution's results are not written."""
    if out.dtype is not torch.float32 or not _reads(request):
        return []
    conv = job.forward(_convolution(request, 0), 2, preserve_format=False)
    layout = Layout(out.dtype, out.shape, out.steps, 16)
    result = job.Tensor(conv.result.pointer, layout, images(layout, 2))
    norm = source.ctype(norm_dtype(request.inputs[3:]))
    args = (conv.bias, *_given(request), request.options["eps"])
    kernel = f"to_pooled<{norm}>"
    ending = winograd.Ending("conv_block/winograd_pool.cu", kernel, args, p.out)
    found = winograd.windows(replace(conv, out=out, result=result), False, ending=ending)
    return [replace(c, name=f"pooling {c.name}") for c in found]


def training(request: Request, p: ConvBlockSizes, outputs: tuple[Buffer, ...]) -> list[Candidate]:
    """Candidates of three stages: the convolution, its statistics, then all the rest."""
    gpu, count = request.target, len(request.inputs)
    moved = TRAFFIC.moments * math.prod(p.conv) * request.first.itemsize

    def build(conv: Plan) -> Plan:
        out, mean, var, y = (Pointer(count + i) for i in range(4))
        gamma, beta = _given(request)
        parts = Pointer(count + 4 + len(conv.scratch))
        grid, each = _grid(p, gpu), images_each(p, gpu)
        moments = source.kernel(
            "conv_block/normalise.cu", f"moments<{source.ctype(outputs[0].dtype)}>"
        )
        steps = (
            Step(moments, grid, (BLOCK,), (y, parts, each, p.packed())),
            normalise(request, p, Norm(y, parts, gamma, beta, out, mean, var), grid[1]),
        )
        scratch = (*conv.scratch, Buffer((*grid, 3), torch.float32))
        return Plan((*conv.steps, *steps), outputs, scratch)

    return _convolutions(request, 3, 2 * gpu.launch + moved / gpu.bandwidth, build)


class Norm(NamedTuple):
    """The tensors of the last stage of training: convolution, parts, batch norm, results."""

    y: Argument
    parts: Argument
    gamma: Argument
    beta: Argument
    out: Argument
    mean: Argument
    var: Argument


def normalise(request: Request, p: ConvBlockSizes, tensors: Norm, count: int) -> Step:
    """The last stage of training, from so many parts of the convolution's statistics."""
    x, norm = request.first, norm_dtype(request.inputs[3:])
    name = f"normalise<{source.ctype(x.dtype)}, {source.ctype(norm)}, {WINDOWS}>"
    args = (*tensors, request.options["eps"], count, images_each(p, request.target), p.packed())
    return Step(
        source.kernel("conv_block/normalise.cu", name), _grid(p, request.target), (BLOCK,), args
    )
