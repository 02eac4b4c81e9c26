"""The gradient of conv_bn_relu_pool's convolution, from that of its result."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.conv_block.forward import Inputs
from weft.ops.families.conv_block.model import TRAFFIC
from weft.ops.families.conv_block.shape import NAME, ConvBlockSizes
from weft.ops.families.conv_block.unfused import BLOCK, images_each, norm_dtype


def _candidates(request: Request) -> list[Candidate]:
    y, gpu = request.inputs[1], request.target
    assert y is not None
    dtype = norm_dtype(request.inputs[4:])
    weights = Buffer((y.shape[1],), dtype)
    outputs = (Buffer(y.shape, y.dtype), weights, weights)
    inputs = Inputs(request, len(outputs))
    moved = TRAFFIC.backward * math.prod(y.shape) * y.itemsize
    cost = inputs.cost + 2 * gpu.launch + moved / gpu.bandwidth
    build = functools.partial(_plan, request, inputs, outputs)
    return [Candidate("two kernels", cost, f"{int(moved):,} bytes", build)]


def _plan(request: Request, inputs: Inputs, outputs: tuple[Buffer, ...]) -> Plan:
    n, filters, rows, columns = outputs[0].shape
    # The sizes of the input do not matter here.
    p = ConvBlockSizes(n, 1, rows, columns, filters, 1, 1, 0, 0)
    types = f"{source.ctype(outputs[0].dtype)}, {source.ctype(outputs[1].dtype)}"
    parts = inputs.spare(request, len(outputs))
    each = images_each(p, request.target)
    groups, eps = cdiv(n, each), request.options["eps"]
    results = [Pointer(len(request.inputs) + i) for i in range(len(outputs))]
    shape = p.packed()
    steps = (
        Step(source.kernel("conv_block/backward.cu", f"sums<{types}>"), (filters, groups), (BLOCK,),
             (*inputs.pointers, parts, eps, each, shape)),
        Step(source.kernel("conv_block/backward.cu", f"gradient<{types}>"), (filters, groups),
             (BLOCK,), (*inputs.pointers, parts, *results, eps, groups, each, shape)),
    )  # fmt: skip
    scratch = (*inputs.scratch, Buffer((groups, filters, 2), torch.float32))
    return Plan((*inputs.steps, *steps), outputs, scratch)


def _fake(dout: Any, y: Any, mean: Any, var: Any, gamma: Any, beta: Any, eps: float) -> Any:
    dtype = next((t.dtype for t in (gamma, beta) if t is not None), torch.float32)
    return y.new_empty(y.shape), *(y.new_empty(y.shape[1], dtype=dtype) for _ in range(2))


DEFINITIONS = (
    Definition(
        name=f"{NAME}_backward",
        schema="(Tensor dout, Tensor y, Tensor mean, Tensor var, Tensor? bn_weight, "
        "Tensor? bn_bias, float eps) -> (Tensor, Tensor, Tensor)",
        doc="The gradients of the convolution's result, of bn_weight and of bn_bias.",
        fake=_fake,
        candidates=_candidates,
        autocast=None,
        public=False,
    ),
)
