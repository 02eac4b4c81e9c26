"""Convolutions of one tap as matrix products: the candidates are those of matmul."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import torch

from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.families.conv.geometry import dense
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.matmul import pipelined
from weft.ops.families.matmul.matmul import candidates_of
from weft.ops.families.matmul.product import Bias, Epilogue, Operand, Product

HALVES = (torch.float16, torch.bfloat16)
MOST = 6
"""Candidates of a product that launches precede."""


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
        if job.fused:
            epilogue = Epilogue("conv/fused_products.cu", *job.fused)
            return pipelined.candidates(replace(made, bias=None, epilogue=epilogue), job.gpu)
    elif images and not job.fused:  # channels times pixels of each image
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
    if job.before:
        return []
    if not applies(job):
        return [] if job.stored else _thinned(job, request)
    if not (_last(job.first, g.n, g.h, g.w) and _last(job.second, g.n, g.h, g.w)):
        return []
    dy, x = (
        Operand(t.pointer, 1, t.images.strides[3], 0, t.images.aligned)
        for t in (job.first, job.second)
    )
    made = Product(
        1, g.k, g.c, g.n * g.h * g.w, dy, x, None, g.c, 1, 0, job.out,
        inputs=len(request.inputs), stored=job.stored,
    )  # fmt: skip
    return pipelined.candidates(made, job.gpu) if job.stored else candidates_of(made, request)


def _thinned(job: ConvJob, request: Request) -> list[Candidate]:
    """The same with a stride: the pixels that are read are copied beside each other."""
    g = job.geometry
    plain = g.taps == g.groups == 1 and g.pad == (0, 0) and g.sparse
    if not (plain and job.out.dtype in HALVES and _last(job.first, g.n, g.p, g.q)):
        return []
    _, x = job.thinned(job.second)
    sn, sc, sh, sw = x.images.strides
    if sc != 1:
        return []
    view = Layout(job.out.dtype, (g.n, g.p, g.q, g.c), (sn, sh, sw, sc), x.images.aligned)
    place, rows = job.scratch_at(), g.n * g.p * g.q
    copy = contiguous(view, x.pointer, place, job.gpu)
    column = job.first.images.strides[3]
    dy = Operand(job.first.pointer, 1, column, 0, job.first.images.aligned)
    made = Product(
        1, g.k, g.c, rows, dy, Operand(place, 1, g.c, 0, 16), None, g.c, 1, 0, job.out,
        scratch=(*job.scratch, Buffer((rows * g.c,), job.out.dtype)), inputs=len(request.inputs),
    )  # fmt: skip
    return preceded("thinned", made, request, job.cost + copy.cost, lambda: tuple(copy.steps))


def preceded(
    word: str, product: Product, request: Request, cost: float,
    before: Callable[[], tuple[Step, ...]], after: Callable[[Plan], Plan] = lambda plan: plan,
) -> list[Candidate]:  # fmt: skip
    """The candidates of a product, with the launches before and after it; `word` names these."""

    def build(of: Candidate) -> Plan:
        plan = of.build()
        return after(replace(plan, steps=(*before(), *plan.steps)))

    found = sorted(candidates_of(product, request), key=lambda c: c.cost)[:MOST]
    return [
        Candidate(f"{word}, {c.name}", cost + c.cost, c.why, functools.partial(build, c))
        for c in found
    ]


def _last(x: Tensor, n: int, h: int, w: int) -> bool:
    """True if channels are innermost, and pixels follow each other at one distance."""
    strides = x.images.strides
    return strides[1] == 1 and strides[3] != 1 and dense(strides, n, h, w)


def _first(x: Tensor, h: int, w: int) -> bool:
    """True if the pixels of an image are neighbours."""
    _, _, row, column = x.images.strides
    return (w == 1 or column == 1) and (h == 1 or row == w)
