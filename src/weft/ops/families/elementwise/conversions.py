"""Plan conversions of the results of other plans."""

from __future__ import annotations

import functools

import torch

from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.composition import Composition
from weft.ops.core.plan import Buffer, Plan, Pointer
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import CopyPlan
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob
from weft.ops.families.elementwise.pointwise import strategies


def converted_after(
    candidate: Candidate, inputs: int, narrow: torch.dtype, outputs: tuple[Buffer, ...], gpu: Target
) -> Candidate:
    """A candidate whose results, dense ones of `narrow`, are converted after it.

    outputs  those of the call: results of the candidate are the first of them
    """
    # The cost does not depend on addresses.
    places = Pointer(0), Pointer(1)
    cost = sum(_conversion(b, narrow, *places, gpu).cost for b in outputs)
    build = functools.partial(_plan, candidate, inputs, narrow, outputs, gpu)
    return Candidate(f"{candidate.name}, converted", candidate.cost + cost, candidate.why, build)


def _conversion(
    out: Buffer, narrow: torch.dtype, start: Pointer, end: Pointer, gpu: Target
) -> CopyPlan:
    """The fastest conversion to a result, element by element of its memory."""
    count = functools.reduce(lambda n, size: n * size, out.shape, 1)
    if not count:
        return CopyPlan((), 0.0)
    ctype, size = source.ctype(out.dtype), out.dtype.itemsize
    operand = BroadcastOperand(source.ctype(narrow), narrow.itemsize, (1,), 16, start)
    job = ElementwiseJob("a", ctype, (count,), (operand,), ctype, size, end)
    best = min(strategies(job, gpu), key=lambda strategy: strategy.cost)
    return CopyPlan((best.build(),), best.cost)


def _plan(
    candidate: Candidate, inputs: int, narrow: torch.dtype, outputs: tuple[Buffer, ...], gpu: Target
) -> Plan:
    """The plan of a candidate, then of conversions of its results."""
    plan, made = candidate.build(), Composition(inputs, outputs)
    places = [made.buffer(b) for b in plan.outputs]
    made.run(plan, [Pointer(i) for i in range(inputs)], places)
    for number, place in enumerate(places):
        out = made.output(number)
        made.steps += _conversion(outputs[number], narrow, place, out, gpu).steps
    return made.plan()
