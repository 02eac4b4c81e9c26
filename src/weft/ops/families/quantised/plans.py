"""Plan weight-only products: every kernel that takes a call is a candidate."""

from __future__ import annotations

import functools

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.quantised import dequantised, model, pipelined, skinny, tiled
from weft.ops.families.quantised.job import QuantisedJob, copied, job_of
from weft.ops.families.quantised.structs import QuantisedProblem

TENSOR_CORES = (8, 0)
"""The least compute capability of the kernels on tensor cores."""
HALF = (torch.float16, torch.bfloat16)


def candidates(request: Request) -> list[Candidate]:
    """Candidates for a product."""
    job, gpu = job_of(request), request.target
    out = job.out
    if 0 in (job.m, job.weight.n):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    found = [_dots(job, gpu)]
    if job.weight.k == 0:
        return found
    if job.dtype in HALF and gpu.capability >= TENSOR_CORES and job.weight.k % 8 == 0:
        whole = job if job.has_whole_rows else copied(job, request)
        found += skinny.candidates(whole, gpu)
        found += pipelined.candidates(whole, gpu) or tiled.candidates(whole, gpu)
    return found + dequantised.candidates(job, request)


def _dots(job: QuantisedJob, gpu: Target) -> Candidate:
    """The kernel for any call: a warp for each row of the weight."""
    tokens = next(t for t in (1, 2, 4, 8) if job.m <= t or t == 8)
    each = 8 if job.weight.each == 8 and job.has_whole_rows else 1
    cost = job.copy_time + model.dots_time(job, gpu, tokens, each)
    why = f"a warp for each of {job.weight.n} rows"
    build = functools.partial(_dots_plan, job, tokens, each)
    return Candidate("dots" if each == 8 else "dots, one by one", cost, why, build)


def _dots_plan(job: QuantisedJob, tokens: int, each: int) -> Plan:
    weight = job.weight
    types = (source.ctype(job.dtype), source.ctype(weight.scale))
    name = source.template("dots", f"Weights::{weight.format.name}", *types, tokens, each)
    kernel = source.kernel("quantised/dots.cu", name, **QuantisedProblem.define())
    parts = cdiv(job.m, tokens)
    grid = (cdiv(weight.n, 8), min(parts, 32768), cdiv(parts, 32768))
    step = Step(kernel, grid, (256,), (*job.arguments, job.problem()), early=True)
    return Plan((*job.steps, step), (job.out,), job.scratch)
