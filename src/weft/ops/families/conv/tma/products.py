"""Convolutions of one tap as matrix products: the candidates are those of matmul."""

from __future__ import annotations

import torch

from weft.ops.core.choose import Candidate, Request
from weft.ops.families.conv.geometry import dense
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.matmul.matmul import candidates_of
from weft.ops.families.matmul.product import Bias, Operand, Product

HALVES = (torch.float16, torch.bfloat16)


def applies(job: ConvJob) -> bool:
    """True for one tap of 16-bit elements without stride, padding and groups."""
    g = job.geometry
    plain = g.taps == g.groups == 1 and g.stride == (1, 1) and g.pad == (0, 0)
    return plain and (g.p, g.q) == (g.h, g.w) and job.out.dtype in HALVES


def windows(job: ConvJob, request: Request, back: bool) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g, weight = job.geometry, job.second
    if not applies(job) or job.before:
        return []
    rows, depth = (g.c, g.k) if back else (g.k, g.c)
    sk, sc = weight.images.strides[:2]
    filters = (sc, sk) if back else (sk, sc)
    channels = _last(job.first, g.n, g.h, g.w) and _last(job.result, g.n, g.h, g.w)
    images = _first(job.first, g.h, g.w) and _first(job.result, g.h, g.w)
    pixels = g.h * g.w
    left = Operand(weight.pointer, *filters, 0, weight.images.aligned)
    if channels:  # pixels times channels
        column = job.first.images.strides[3]
        x = Operand(job.first.pointer, column, 1, 0, job.first.images.aligned)
        bias = Bias(job.bias, 0, 0, 1) if job.bias else None
        made = Product(
            1, g.n * pixels, rows, depth, x, left, bias, rows, 1, 0, job.out,
            inputs=len(request.inputs),
        )  # fmt: skip
    elif images:  # channels times pixels of each image
        batch, channel = job.first.images.strides[:2]
        x = Operand(job.first.pointer, 1, channel, batch, job.first.images.aligned)
        bias = Bias(job.bias, 0, 1, 0) if job.bias else None
        made = Product(
            g.n, rows, pixels, depth, left, x, bias, pixels, 1, 0, job.out,
            inputs=len(request.inputs),
        )  # fmt: skip
    else:
        return []
    return candidates_of(made, request)


def gradients(job: ConvJob, request: Request) -> list[Candidate]:
    """Candidates of the backward pass to the weight, of channels that are innermost."""
    g = job.geometry
    if not applies(job) or job.before:
        return []
    if not (_last(job.first, g.n, g.h, g.w) and _last(job.second, g.n, g.h, g.w)):
        return []
    dy, x = (
        Operand(t.pointer, 1, t.images.strides[3], 0, t.images.aligned)
        for t in (job.first, job.second)
    )
    made = Product(
        1, g.k, g.c, g.n * g.h * g.w, dy, x, None, g.c, 1, 0, job.out, inputs=len(request.inputs)
    )
    return candidates_of(made, request)


def _last(x: Tensor, n: int, h: int, w: int) -> bool:
    """True if channels are innermost, and pixels follow each other at one distance."""
    strides = x.images.strides
    return strides[1] == 1 and strides[3] != 1 and dense(strides, n, h, w)


def _first(x: Tensor, h: int, w: int) -> bool:
    """True if the pixels of an image are neighbours."""
    _, _, row, column = x.images.strides
    return (w == 1 or column == 1) and (h == 1 or row == w)
