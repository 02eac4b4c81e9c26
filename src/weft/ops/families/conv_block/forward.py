"""Plan conv_bn_relu_pool: convolution, batch norm, ReLU and 2 x 2 max pooling.

In evaluation it is one kernel. In training it is two: the convolution, which also sums the results
of each filter, and all the rest; a third one of a single block updates running statistics. Where
another kernel of the convolution is so much faster that it wins without fusion, it is used: see
unfused.py.
"""

from __future__ import annotations

import functools
import math

import torch

from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.conv_block import unfused
from weft.ops.families.conv_block.model import TRAFFIC, FusedTile, tiles
from weft.ops.families.conv_block.shape import ConvBlockSizes, shape_of
from weft.ops.families.conv_block.unfused import Norm, norm_dtype
from weft.ops.families.elementwise.copies import contiguous

_TENSORS = 7
"""Inputs of both ops; the others follow."""


# ---- candidates --------------------------------------------------------------------------------
def _shape(request: Request) -> ConvBlockSizes:
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


def _ranked(p: ConvBlockSizes, training: bool, target: Target) -> list[tuple[float, FusedTile]]:
    pairs = [(tile.time(p, training, target), tile) for tile in tiles(p, training, target)]
    # Of equal ones two warps: they share the weights that a block loads.
    return sorted(pairs, key=lambda pair: (pair[0], abs(pair[1].threads - 64), pair[1]))[
        : unfused.LISTED
    ]


def _named(tile: FusedTile) -> str:
    area = f"{2 * tile.strips} x {2 * tile.pooled_columns}"
    images = f", {tile.images} images" if tile.images > 1 else ""
    return f"{tile.lanes} x {tile.per_lane} filters, {area}{images}, channels by {tile.channels}"


def _template(p: ConvBlockSizes, tile: FusedTile, training: bool, target: Target) -> str:
    numbers = (p.filter_rows, p.filter_columns, *tile, tile.resident(p, training, target))
    return ", ".join(map(str, numbers))


def evaluation(request: Request) -> list[Candidate]:
    """Candidates of the op in evaluation."""
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
    return [*fused, *unfused.evaluation(request, p, out)]


def _evaluation_plan(
    request: Request, p: ConvBlockSizes, tile: FusedTile, inputs: Inputs, out: Buffer
) -> Plan:
    norm = source.ctype(norm_dtype(request.inputs[3:]))
    template = _template(p, tile, False, request.target)
    name = f"inference<{source.ctype(out.dtype)}, {norm}, {template}>"
    kernel = source.kernel("conv_block/fused.cu", name)
    down, across, blocks, groups = tile.grid(p, False)
    args = (*inputs.pointers, Pointer(_TENSORS), request.options["eps"], p.packed(down, across))
    step = Step(kernel, (blocks, groups), (tile.threads,), args, tile.shared(p, False))
    return Plan((*inputs.steps, step), (out,), tuple(inputs.scratch))


def training(request: Request) -> list[Candidate]:
    """Candidates of the op in training."""
    p, x = _shape(request), request.first
    statistics = Buffer((p.filters,), torch.float32)
    outputs = (Buffer(p.out, x.dtype), statistics, statistics, Buffer(p.conv, x.dtype))
    inputs = Inputs(request, len(outputs))
    gpu = request.target
    moved = TRAFFIC.normalise * math.prod(p.conv) * x.itemsize
    rest = 2 * gpu.launch + moved / gpu.bandwidth
    fused = [
        Candidate(_named(tile), inputs.cost + rest + time, "two kernels",
                  functools.partial(_training_plan, request, p, tile, inputs, outputs))
        for time, tile in _ranked(p, True, gpu)
    ]  # fmt: skip
    return [*fused, *unfused.training(request, p, outputs)]


def _training_plan(
    request: Request,
    p: ConvBlockSizes,
    tile: FusedTile,
    inputs: Inputs,
    outputs: tuple[Buffer, ...],
) -> Plan:
    x, weight, bias, gamma, beta = inputs.pointers
    out, mean, var, y = (Pointer(len(request.inputs) + i) for i in range(4))
    parts = inputs.spare(request, 4)
    down, across, blocks, groups = tile.grid(p, True)
    template = _template(p, tile, True, request.target)
    name = f"convolution<{source.ctype(outputs[0].dtype)}, {template}>"
    convolution = source.kernel("conv_block/fused.cu", name)
    args = (x, weight, bias, y, parts, p.packed(down, across))
    steps = (
        Step(convolution, (blocks, groups), (tile.threads,), args, tile.shared(p, True)),
        unfused.normalise(request, p, Norm(y, parts, gamma, beta, out, mean, var), blocks),
    )
    scratch = (*inputs.scratch, Buffer((blocks, p.filters, 3), torch.float32))
    return Plan((*inputs.steps, *steps), outputs, scratch)
