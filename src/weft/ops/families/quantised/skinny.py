"""Plan products with up to 16 tokens: memory-bound, weights go straight to registers."""

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

TOKENS = (1, 2, 4, 8, 16)
"""Tokens that the kernel is compiled for."""
COLUMNS = 8
"""Tokens of a product of tensor cores."""
WARPS = 8
"""Warps of a block."""
SHARES = (1, 2, 4, 8)
"""Warps that share the K of a row."""
PAIRS = (1, 2)
"""Pairs of rows of a lane."""
AHEAD = 2
"""Steps whose weights a lane has under way."""


class SkinnyLaunch(NamedTuple):
    """A configuration of the kernel; see skinny.cu.

    tokens  that it is compiled for
    units   eights of weights that a lane loads at once
    pairs   of rows of a lane
    share   warps that share a row
    """

    tokens: int
    units: int
    pairs: int
    share: int

    @property
    def step(self) -> int:
        """Weights of a row that a warp reads at once."""
        return 32 * self.units * (COLUMNS // min(self.tokens, COLUMNS))

    @property
    def rows(self) -> int:
        """Rows of a warp."""
        return 2 * self.pairs * min(self.tokens, COLUMNS)

    def takes(self, weight: QuantisedWeight) -> bool:
        """True if there are rows for a warp, and steps of a row for each warp that shares it."""
        return weight.n >= self.rows and (self.share == 1 or self.share * self.step <= weight.k)

    def blocks(self, weight: QuantisedWeight) -> int:
        return cdiv(weight.n, WARPS // self.share * self.rows)

    def weights(self, weight: QuantisedWeight) -> int:
        """Weights that a block reads, with zeros behind the last ones."""
        step = self.step * self.share
        return WARPS // self.share * self.rows * cdiv(weight.k, step) * step


def units_of(weight: QuantisedWeight) -> int:
    """The most eights of weights that a lane may load at once; 0: none."""
    for units in (16 // weight.format.eight, 8 // weight.format.eight, 1):
        fits = units and weight.aligned % (units * weight.format.eight) == 0
        whole = units and weight.k % (8 * units) == 0
        if fits and whole and (weight.groups == 1 or weight.group % (32 * units) == 0):
            return units
    return 0


def candidates(job: QuantisedJob, gpu: Target) -> list[Candidate]:
    """Candidates for few tokens."""
    units = units_of(job.weight)
    if job.m > TOKENS[-1] or not units:
        return []
    tokens = next(t for t in TOKENS if job.m <= t)
    made = [SkinnyLaunch(tokens, units, pairs, share) for share in SHARES for pairs in PAIRS]
    return [_candidate(job, gpu, launch) for launch in made if launch.takes(job.weight)]


def _candidate(job: QuantisedJob, gpu: Target, launch: SkinnyLaunch) -> Candidate:
    blocks, weights = launch.blocks(job.weight), launch.weights(job.weight)
    cost = model.SKINNY.time(job, gpu, blocks, weights, launch.tokens, launch.pairs)
    name = f"skinny, {2 * launch.pairs} rows"
    name += f", {launch.share} warps a row" if launch.share > 1 else ""
    why = f"{job.m} tokens: memory is the limit, {job.weight.size:,} bytes"
    return Candidate(name, job.copy_time + cost, why, functools.partial(_plan, job, launch))


def _plan(job: QuantisedJob, launch: SkinnyLaunch) -> Plan:
    weight = job.weight
    types = (source.ctype(job.dtype), source.ctype(weight.scale))
    words = (*launch, AHEAD, weight.k % launch.step == 0, weight.groups > 1, weight.has_zero)
    name = source.template("skinny", f"Weights::{weight.format.name}", *types, *words)
    kernel = source.kernel("quantised/skinny.cu", name, **QuantisedProblem.define())
    args = (*job.arguments, job.problem())
    step = Step(kernel, (launch.blocks(weight),), (WARPS * 32,), args, early=True)
    return Plan((*job.steps, step), (job.out,), job.scratch)
