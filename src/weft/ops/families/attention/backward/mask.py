"""Plan the gradient of an added mask: that of the scores, which the caller sums to its shape."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.attention.backward.job import (
    LSE,
    MASK,
    AttentionBackwardJob,
    described,
    fp32_bytes,
    fp32_side,
)

WARPS = 4
"""Warps of a block; each has 16 queries of a square tile."""


def candidates(request: Request) -> list[Candidate]:
    """The candidate of a call."""
    job = described(request, 1, ragged=False)
    p, mask = job.problem, request.inputs[MASK]
    assert mask is not None
    result = Buffer((*p.lse.shape, p.keys), mask.dtype)
    if 0 in (p.batch, p.heads, p.rows, p.keys):
        return [Candidate("empty", 0.0, "no scores", lambda: Plan((), (result,)))]
    moved = 4 * p.batch * p.heads * p.rows * p.keys
    cost = 2 * request.target.launch + moved / request.target.bandwidth
    build = functools.partial(_plan, job, result, Pointer(len(request.inputs)))
    return [Candidate("scores", cost, "a tile of scores per block", build)]


def _plan(job: AttentionBackwardJob, result: Buffer, to: Pointer) -> Plan:
    p = job.problem
    dout, q, k, v, _ = (x.pointer for x in job.inputs)
    tensors = (q, k, v, p.mask_pointer, dout, Pointer(LSE), job.delta, to)
    args = (*tensors, *job.structs(1), *p.random)
    if job.fp32:
        side, threads = fp32_side(job), 256
        kernel = job.kernel("scores", side, p.mask, p.drops)
        shared = fp32_bytes(job)
    else:
        words = (WARPS, p.mask, source.ctype(result.dtype), p.drops)
        kernel, side, threads = job.kernel("scores", *words), 16 * WARPS, 32 * WARPS
        shared = 4 * side * job.pitch
    blocks = cdiv(p.rows, side) * cdiv(p.keys, side) * p.heads * p.batch
    step = Step(kernel, (blocks,), (threads,), args, shared)
    return job.plan((job.delta_step(), step), (result,))
