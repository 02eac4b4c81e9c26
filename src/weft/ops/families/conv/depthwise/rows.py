"""Plan convolutions in which every filter reads one channel: limited by memory."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.geometry import Geometry
from weft.ops.families.conv.implicit import INDEX, fits, parted
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.model import DEPTHWISE

TAPS = 64
"""The most taps of a filter: they are in registers."""
STRIDES = (1, 2)
"""Strides for which a strip of the image is in registers."""
STRIP = 4
"""Columns of results that a thread computes."""


def applies(job: ConvJob, back: bool = False) -> bool:
    """True if the kernels take this convolution; `back` for the backward pass to the data."""
    g = job.geometry
    one = g.groups == g.c and (g.k == g.c or not back)
    rows = 1 if g.p == g.h == 1 else g.stride[0]
    plain = g.dilation == (1, 1) or g.taps == 1
    strides = rows == g.stride[1] and g.stride[1] in ((1,) if back else STRIDES)
    small = g.taps <= TAPS and g.s <= 16 and _pad(g, back) in range(g.s)
    indexed = max(g.n * g.c * g.h * g.w, g.n * g.k * g.p * g.q) <= INDEX
    return one and plain and strides and small and indexed and fits(job) and _rows(job.first)


def _rows(x: Tensor) -> bool:
    """True if the columns are contiguous."""
    return x.images.strides[3] == 1 or x.layout.shape[-1] == 1


def _pad(g: Geometry, back: bool) -> int:
    return g.s - 1 - g.pad[1] if back else g.pad[1]


def _wide(job: ConvJob, *tensors: Tensor) -> bool:
    """True if the rows of the tensors are whole, aligned vectors of four elements."""
    each = STRIP * int(job.out.dtype.itemsize)
    return all(
        t.layout.shape[-1] % STRIP == 0
        and t.images.aligned >= min(each, 16)
        and all(s % STRIP == 0 for s in t.images.strides[:3])
        for t in tensors
    )


def _time(job: ConvJob, launches: int) -> float:
    tensors = (job.first, job.second, job.result)
    moved = sum(t.layout.numel * t.layout.itemsize for t in tensors)
    reading = moved / (job.gpu.bandwidth * DEPTHWISE.memory_reach)
    computing = job.geometry.flops / (job.gpu.fp32 * DEPTHWISE.reach)
    return job.cost + launches * job.gpu.launch + max(reading, computing)


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """The candidate of the forward pass, or of the backward pass to the data."""
    if not applies(job, back) or not _rows(job.result):
        return []
    build = functools.partial(_windows, job, back)
    return [Candidate("depthwise", _time(job, 1), "strips of the image in registers", build)]


def _windows(job: ConvJob, back: bool) -> Plan:
    g = job.geometry
    if back:  # the same pass from dy to dx, with the taps reversed
        g = Geometry(g.n, g.c, g.p, g.q, g.c, g.r, g.s, g.h, g.w, g.groups, (1, 1),
                     (g.r - 1 - g.pad[0], g.s - 1 - g.pad[1]), (1, 1))  # fmt: skip
    wide = _wide(job, job.first, job.result)
    rows = next(n for n in (1, 2, 4) if n >= min(g.p, 4))
    words = (source.ctype(job.out.dtype), g.r, g.s, g.stride[1], g.pad[1], rows, back, wide)
    kernel = source.kernel("conv/depthwise.cu", source.template("depthwise", *words))
    problem = g.problem(job.first.images, job.result.images)
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, problem)
    threads = g.n * g.k * cdiv(g.p, rows) * cdiv(g.q, STRIP)
    return job.plan(Step(kernel, (cdiv(threads, 128),), (128,), args))


def gradients(job: ConvJob) -> list[Candidate]:
    """The candidate of the backward pass to the weight."""
    g = job.geometry
    if not applies(job) or not _rows(job.second):
        return []
    strips = g.n * g.p * cdiv(g.q, STRIP)
    splits = max(1, min(cdiv(16 * job.gpu.sms, g.k), cdiv(strips, 512), 65535))
    each = cdiv(strips, splits)
    build = functools.partial(_gradients, job, cdiv(strips, each), each)
    why = f"{g.k * splits} blocks for {job.gpu.sms} SMs"
    return [Candidate("depthwise", _time(job, 1 + (splits > 1)), why, build)]


def _gradients(job: ConvJob, splits: int, each: int) -> Plan:
    g, ctype = job.geometry, source.ctype(job.out.dtype)
    out, steps, scratch = parted(job, splits)
    shape = (g.r, g.s, g.stride[1], g.pad[1], _wide(job, job.first, job.second))
    name = source.template("depthwise_weight", ctype, "float" if splits > 1 else ctype, *shape)
    problem = g.problem(job.second.images, job.first.images, splits=splits, each=each)
    args = (job.second.pointer, job.first.pointer, out, problem)
    step = Step(source.kernel("conv/depthwise.cu", name), (g.k, splits), (128,), args)
    return job.plan(step, *steps, scratch=scratch)
