"""Plan convolutions by their definition: few channels per group, and tensors of any size."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.implicit import parted
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.model import DIRECT

TAPS = 9
"""Taps that a thread of the gradient of weights sums at a time."""


def _time(job: ConvJob, terms: int, scale: float = 1.0) -> float:
    tensors = (job.first, job.second, job.result)
    moved = sum(t.layout.numel * t.layout.itemsize for t in tensors)
    work = job.geometry.flops * scale / (job.gpu.fp32 * DIRECT.reach)
    return job.gpu.launch + max(moved / job.gpu.bandwidth, work, DIRECT.term * terms) + job.cost


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """The candidate of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    terms = (g.k if back else g.c) // g.groups * g.taps
    build = functools.partial(_windows, job, back)
    return [Candidate("direct", _time(job, terms), "one thread per result", build)]


def _windows(job: ConvJob, back: bool) -> Plan:
    g = job.geometry
    n, c = (g.x if back else g.y)[:2]
    phases, h, w = g.phases(back)
    name = source.template("direct", source.ctype(job.out.dtype), back)
    problem = g.problem(job.first.images, job.result.images, back=back)
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, problem)
    step = Step(
        source.kernel("conv/direct.cu", name), (cdiv(n * c * h * w, 256), phases), (256,), args
    )
    return job.plan(step)


def gradients(job: ConvJob) -> list[Candidate]:
    """The candidate of the backward pass to the weight."""
    g = job.geometry
    pairs, depth = g.k * g.c // g.groups, g.n * g.p * g.q
    splits = max(1, min(cdiv(8 * job.gpu.sms, pairs), cdiv(depth, 2048), 65535))
    each = cdiv(depth, splits)
    splits = cdiv(depth, each)
    build = functools.partial(_gradients, job, pairs, splits, each)
    why = f"one block per pair of channels and {TAPS} taps"
    return [Candidate("direct", _time(job, cdiv(each, 256) * TAPS // 2, 2.0), why, build)]


def _gradients(job: ConvJob, pairs: int, splits: int, each: int) -> Plan:
    g = job.geometry
    out, steps, scratch = parted(job, splits)
    ctype = source.ctype(job.out.dtype)
    name = f"direct_weight<{ctype}, {'float' if splits > 1 else ctype}, {TAPS}>"
    problem = g.problem(job.second.images, job.first.images)
    args = (job.second.pointer, job.first.pointer, out, problem, each)
    step = Step(
        source.kernel("conv/direct_weight.cu", name),
        (pairs, cdiv(g.taps, TAPS), splits),
        (256,),
        args,
    )
    return job.plan(step, *steps, scratch=scratch)
