"""conv2d_fused: a convolution, batch norm with given statistics, a residual and ReLU.

The sums of a channel are completed before they are stored, so that none of these is a pass over
memory. torch.compile's backend calls it in evaluation; there is no gradient.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Layout, Pointer
from weft.ops.families.conv import arguments, job, taps, tensor
from weft.ops.families.conv.implicit import INDEX
from weft.ops.families.conv.tma import products
from weft.ops.families.conv.tma import windows as boxes
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.norm import batch_norm

NAME = "conv2d_fused"
HALVES = (torch.float16, torch.bfloat16)
MEAN, SCALE, RESIDUAL = 3, 5, 7
"""Places of inputs: the statistics, the parameters of the norm, the residual."""


# ---- candidates --------------------------------------------------------------------------------
def candidates(request: Request) -> list[Candidate]:
    """Those of the convolution whose kernels complete results in this way."""
    whole = replace(request, options=request.options | {"precision": "fp32"})
    made = _completed(job.forward(whole, dims=2, rows=False), request)
    if made.result.layout.numel == 0:
        return [Candidate("empty", 0.0, "no elements", made.plan)]
    return [
        *tensor.windows(made, False),
        *taps.windows(made, False),
        *boxes.windows(made, False),
        *products.windows(made, whole, False),
    ]


def _completed(made: job.ConvJob, request: Request) -> job.ConvJob:
    dtypes = (
        next((x.dtype for x in request.inputs[first : first + 2] if x is not None), torch.float32)
        for first in (MEAN, SCALE)
    )
    places = [None if request.inputs[i] is None else Pointer(i) for i in range(MEAN, SCALE + 2)]
    made, residual = _residual(made, request.inputs[RESIDUAL])
    options = request.options
    args = (made.bias, residual, *places, float(options["eps"]), int(options["relu"]))
    epilogue = job.FusedEpilogue(tuple(map(source.ctype, dtypes)), args)
    return replace(made, fused=epilogue)


def _residual(made: job.ConvJob, x: Layout | None) -> tuple[job.ConvJob, Pointer | None]:
    """The residual with the places of the result; copied where it has others."""
    if x is None:
        return made, None
    like = made.result.layout
    if x.strides == like.strides and x.aligned == 16:
        return made, Pointer(RESIDUAL)
    order = (0, 2, 3, 1) if made.result.images.strides[1] == 1 else (0, 1, 2, 3)
    shape, strides = (tuple(t[i] for i in order) for t in (x.shape, x.strides))
    view = Layout(x.dtype, shape, strides, x.aligned)
    place = made.scratch_at()
    copy = contiguous(view, Pointer(RESIDUAL), place, made.gpu)
    buffer = made.out._replace(zeroed=False)
    return replace(
        made,
        before=(*made.before, *copy.steps),
        scratch=(*made.scratch, buffer),
        cost=made.cost + copy.cost,
    ), place


# ---- checks ------------------------------------------------------------------------------------
def _fake(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    return arguments.fake(NAME, 2, x, weight, bias, *rest[5:9])


def _check(x: Any, weight: Any, bias: Any, mean: Any, var: Any, *rest: Any) -> None:
    scale, shift, residual = rest[:3]
    result = _fake(x, weight, bias, mean, var, *rest)
    largest = max(math.prod(t.shape) for t in (x, weight))
    if x.dim() != 4 or x.dtype not in HALVES or largest >= INDEX:
        raise ArgumentError(
            f"weft.ops.{NAME}: input has an unsupported dtype or shape",
            got=f"{list(x.shape)} {x.dtype}",
            allowed=f"[N, C, H, W] of float16 or bfloat16, tensors of less than {INDEX} elements",
            next="call conv2d, batch_norm and relu",
        )
    if mean is not None:
        batch_norm.check(NAME, result, mean, var, scale, shift, False)
    elif (var, scale, shift) != (None, None, None):
        raise ArgumentError(
            f"weft.ops.{NAME}: running_var and parameters of a norm need running_mean", got="None"
        )
    for name, t in (("running_mean", mean), ("running_var", var), ("norm_weight", scale),
                    ("norm_bias", shift)):  # fmt: skip
        if t is not None and not t.is_contiguous():
            raise ArgumentError(
                f"weft.ops.{NAME}: {name} is not contiguous",
                got=f"stride {t.stride(0)}",
                next=f"pass {name}.contiguous()",
            )
    if residual is not None and (residual.shape != result.shape or residual.dtype is not x.dtype):
        raise ArgumentError(
            f"weft.ops.{NAME}: residual must have the shape and dtype of the result",
            got=f"residual {list(residual.shape)} {residual.dtype}",
            allowed=f"{list(result.shape)} {x.dtype}",
        )


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor input, Tensor weight, Tensor? bias=None, Tensor? running_mean=None,"
        " Tensor? running_var=None, Tensor? norm_weight=None, Tensor? norm_bias=None,"
        " Tensor? residual=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1,"
        " int groups=1, float eps=1e-05, bool relu=False) -> Tensor",
        doc="A convolution; then batch norm with given statistics, a residual, ReLU, if wanted.",
        fake=_fake,
        candidates=candidates,
        check=_check,
        autocast=None,
        public=False,
    ),
)
