"""Plan products with up to eight tokens: memory-bound, weights go straight to registers."""

from __future__ import annotations

import functools
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.quantised import model
from weft.ops.families.quantised.job import QuantisedJob, QuantisedWeight
from weft.ops.families.quantised.structs import QuantisedProblem

MOST = 8
"""The most tokens."""
WARPS = 8
"""Warps of a block."""
SHARES = (1, 2, 4, 8)
"""Warps that share the K of a row."""
AHEAD = (2, 4)
"""Steps whose weights a lane has under way."""


class SkinnyLaunch(NamedTuple):
    """A configuration of the kernel; see skinny.cu.

    tokens  that it is compiled for
    units   eights of weights that a lane loads at once
    share   warps that share a row
    ahead   steps whose weights are under way
    """

    tokens: int
    units: int
    share: int
    ahead: int

    @property
    def step(self) -> int:
        """Weights of a row that a warp reads at once."""
        return 32 * self.units * (MOST // self.tokens)

    def blocks(self, weight: QuantisedWeight) -> int:
        return cdiv(weight.n, WARPS // self.share * 2 * self.tokens)


def units_of(weight: QuantisedWeight) -> int:
    """The most eights of weights that a lane may load at once; 0: none."""
    for units in (16 // weight.format.eight, 8 // weight.format.eight, 1):
        fits = units and weight.aligned % (units * weight.format.eight) == 0
        whole = units and weight.k % (8 * units) == 0
        if fits and whole and (weight.groups == 1 or weight.group % (32 * units) == 0):
            return units
    return 0


def candidates(job: QuantisedJob, gpu: Target) -> list[Candidate]:
    """Candidates for up to MOST tokens."""
    units = units_of(job.weight)
    if job.m > MOST or not units:
        return []
    tokens = next(t for t in (1, 2, 4, 8) if job.m <= t)
    made = [SkinnyLaunch(tokens, units, share, ahead) for share in SHARES for ahead in AHEAD]
    least = made[0].step  # more warps than a row has steps would wait for the others
    return [
        _candidate(job, gpu, s) for s in made if s.share == 1 or s.share * least <= job.weight.k
    ]


def _candidate(job: QuantisedJob, gpu: Target, launch: SkinnyLaunch) -> Candidate:
    cost = job.copy_time + model.SKINNY.time(
        job, gpu, launch.blocks(job.weight), launch.step * launch.share, launch.ahead
    )
    name = f"skinny, {launch.ahead} ahead"
    name += f", {launch.share} warps a row" if launch.share > 1 else ""
    why = f"{job.m} tokens: memory is the limit, {job.weight.size:,} bytes"
    return Candidate(name, cost, why, functools.partial(_plan, job, launch))


def _plan(job: QuantisedJob, launch: SkinnyLaunch) -> Plan:
    weight = job.weight
    types = (source.ctype(job.dtype), source.ctype(weight.scale))
    words = (*launch, weight.groups > 1, weight.has_zero)
    name = source.template("skinny", f"Weights::{weight.format.name}", *types, *words)
    kernel = source.kernel("quantised/skinny.cu", name, **QuantisedProblem.define())
    args = (*job.arguments, job.problem())
    step = Step(kernel, (launch.blocks(weight),), (WARPS * 32,), args, early=True)
    return Plan((*job.steps, step), (job.out,), job.scratch)
