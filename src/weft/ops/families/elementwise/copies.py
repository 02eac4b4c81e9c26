"""Plan copies of strided tensors to contiguous ones, as steps of other plans."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob, Strategy
from weft.ops.families.elementwise.pointwise import strategies

SIZES = (1, 2, 4, 8)
"""Element sizes in bytes that can be copied."""


class CopyPlan(NamedTuple):
    """The launches that copy a tensor, and their modelled time."""

    steps: tuple[Step, ...]
    cost: float


def copying(x: Layout, start: Pointer, end: Pointer, target: Target) -> list[Strategy]:
    """All strategies to copy x, at `start`, to a contiguous tensor at `end`."""
    # Copied as bits: one kernel per element size serves all dtypes, and NaN payloads survive.
    ctype = f"Bits<{x.itemsize}>"
    zero = bytes(x.itemsize)
    operand = BroadcastOperand(ctype, x.itemsize, x.strides, x.aligned, start)
    job = ElementwiseJob("a", ctype, x.shape, (operand,), ctype, x.itemsize, end, (zero, zero))
    return strategies(job, target)


def contiguous(x: Layout, start: Pointer, end: Pointer, target: Target) -> CopyPlan:
    """The fastest copy of x, at `start`, to a contiguous tensor at `end`."""
    if x.numel == 0:
        return CopyPlan((), 0.0)
    best = min(copying(x, start, end, target), key=lambda strategy: strategy.cost)
    return CopyPlan((best.build(),), best.cost)


def after_copy(
    copy: CopyPlan, candidates: Sequence[Candidate], *scratch: Buffer
) -> list[Candidate]:
    """Add a copy in front of candidates: to their plans, names and costs.

    `scratch` has the buffers of the copy, unless the plans already have them.
    """

    def build(candidate: Candidate) -> Plan:
        plan = candidate.build()
        return replace(plan, scratch=(*scratch, *plan.scratch))

    return [
        Candidate(
            f"copy, {c.name}",
            c.cost + copy.cost,
            f"strides need a copy first; {c.why}",
            functools.partial(build, c),
        )
        for c in candidates
    ]
