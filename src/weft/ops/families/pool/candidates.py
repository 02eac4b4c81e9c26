"""All candidates of a pooling's forward pass."""

from __future__ import annotations

from dataclasses import replace

from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Layout, Plan, Pointer
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import copying
from weft.ops.families.pool.kernels import PoolJob
from weft.ops.families.pool.staged import Pitches, Staged, pitches
from weft.ops.families.pool.strided import strided_candidates
from weft.ops.families.pool.windows import as_order, is_last


def forward(job: PoolJob, x: Layout, rank: int, target: Target, before: float) -> list[Candidate]:
    """The candidates of a pass over x; `before` is the time of the job's first copy."""
    v, direct = job.view, pitches(x, rank)
    in_place = replace(job, pointers=(Pointer(0), *job.pointers[1:]), before=(), scratch=())
    if direct is None:  # the copy is staged, or the tensor is read in the order of memory
        dense = Pitches(v.height * v.width * v.inner, v.width * v.inner, v.inner)
        staged = [
            *Staged(job, dense, target).candidates(before),
            *strided_candidates(in_place, x, target),
        ]
    else:
        staged = Staged(in_place, direct, target).candidates(0.0)
    return [*job.candidates(target, before), *staged, *_copy(job, x, rank, target)]


def _copy(job: PoolJob, x: Layout, rank: int, target: Target) -> list[Candidate]:
    """Windows of one position inside of the input: the result is a copy of some of it."""
    w = job.windows
    if w.taps != 1 or w.padding != (0, 0) or job.code or any(job.numbers[:1]):
        return []
    lead = len(x.shape) - rank
    strides = (
        *x.strides[:lead],
        *(s * d for s, d in zip(x.strides[lead:], w.stride[-rank:], strict=True)),
    )
    some = x._replace(shape=job.outputs[0].shape, strides=strides)
    last = rank == 2 and is_last(x.shape, x.strides)
    best = min(copying(as_order(some, last), Pointer(0), Pointer(1), target), key=lambda c: c.cost)
    why = f"one position per window, {job.moved:,} bytes"
    return [Candidate("copy", best.cost, why, lambda: Plan((best.build(),), job.outputs))]
