"""Plan products with up to 16 tokens on Hopper: blocks that stay, weights by TMA."""

from __future__ import annotations

import functools
from typing import NamedTuple

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.plan import Map, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined import CAPABILITY, L2_128, MOST_ELEMENTS
from weft.ops.families.quantised import model
from weft.ops.families.quantised.job import WEIGHT, QuantisedJob, QuantisedWeight
from weft.ops.families.quantised.skinny import COLUMNS, PAIRS, TOKENS, WARPS, SkinnyLaunch, units_of
from weft.ops.families.quantised.structs import QuantisedProblem

WORDS = next(kind for kind in TYPES if kind.name == "s32")
"""The type of the map: a box has at most 256 elements in a row, and 512 bytes."""
MOST_ROWS = 256
"""Rows of a box."""
STAGES = (8, 4)
"""Stages of the ring: as many as there is room for."""
RESIDENT = (1, 2)
"""Blocks of an SM."""


class StreamedLaunch(NamedTuple):
    """A configuration of the kernel: rows and tokens of a warp as in `skinny`, and a ring."""

    rows: SkinnyLaunch
    stages: int
    resident: int

    @property
    def tile(self) -> int:
        """Rows of a block."""
        return WARPS * self.rows.rows

    def stage(self, weight: QuantisedWeight) -> int:
        """Bytes of a stage."""
        return self.tile * self.rows.step * weight.format.bits // 8

    def shared(self, weight: QuantisedWeight) -> int:
        """Bytes of the ring, and of the tokens for all of K and their sums."""
        steps, columns = cdiv(weight.k, self.rows.step), max(self.rows.tokens, COLUMNS)
        of_tokens = 2 * self.rows.tokens * self.rows.step + 4 * columns
        return self.stages * self.stage(weight) + steps * of_tokens

    def fits(self, weight: QuantisedWeight, gpu: Target) -> bool:
        room = min(gpu.shared_per_sm // self.resident - BLOCK_RESERVED, gpu.shared_per_block)
        return self.tile <= MOST_ROWS and self.shared(weight) + 1024 <= room

    def time(self, job: QuantisedJob, gpu: Target) -> float:
        """Modelled seconds: those of the SM with the most tiles."""
        weight, blocks = job.weight, gpu.sms * self.resident
        most = cdiv(cdiv(weight.n, self.tile), blocks) * self.resident
        steps = cdiv(weight.k, self.rows.step)
        weights = self.tile * self.rows.step * steps
        return model.SKINNY.streamed_time(
            job, gpu, most, weights, self.rows.tokens, self.rows.pairs
        )


def candidates(job: QuantisedJob, gpu: Target) -> list[Candidate]:
    """Candidates for few tokens on Hopper; none for rows that are no whole vectors."""
    weight, units = job.weight, units_of(job.weight)
    if gpu.capability != CAPABILITY or job.m > TOKENS[-1] or not units:
        return []
    bits = weight.k * weight.format.bits
    if weight.aligned < 16 or bits % 128 or max(weight.n, weight.k) >= MOST_ELEMENTS:
        return []
    tokens = next(t for t in TOKENS if job.m <= t)
    made = []
    for pairs in PAIRS:
        for resident in RESIDENT:
            rows = SkinnyLaunch(tokens, units, pairs, 1)
            rings = (StreamedLaunch(rows, stages, resident) for stages in STAGES)
            launch = next((ring for ring in rings if ring.fits(weight, gpu)), None)
            if launch is not None:
                made.append(_candidate(job, gpu, launch))
    return made


def _candidate(job: QuantisedJob, gpu: Target, launch: StreamedLaunch) -> Candidate:
    name = f"streamed, {2 * launch.rows.pairs} rows"
    name += f", {launch.resident} an SM" if launch.resident > 1 else ""
    why = f"{job.m} tokens: memory is the limit, {job.weight.size:,} bytes, {launch.stages} stages"
    build = functools.partial(plan, job, launch, gpu)
    return Candidate(name, job.copy_time + launch.time(job, gpu), why, build)


def plan(job: QuantisedJob, launch: StreamedLaunch, gpu: Target) -> Plan:
    """The plan of a configuration."""
    weight = job.weight
    types = (source.ctype(job.dtype), source.ctype(weight.scale))
    tokens, units, pairs, _ = launch.rows
    words = (tokens, units, pairs, launch.stages, weight.groups > 1, weight.has_zero)
    name = source.template("streamed", f"Weights::{weight.format.name}", *types, *words)
    kernel = source.kernel("quantised/streamed.cu", name, **QuantisedProblem.define())
    tiles = cdiv(weight.n, launch.tile)
    blocks = min(tiles, gpu.sms * launch.resident)
    x, _, *others = job.arguments
    args = (_map(weight, launch), x, *others, job.problem())
    step = Step(kernel, (blocks,), (32 * WARPS + 32,), args, launch.shared(weight), early=True)
    return Plan((*job.steps, step), (job.out,), job.scratch)


def _map(weight: QuantisedWeight, launch: StreamedLaunch) -> Map:
    """The map of the weight as words: boxes of a step of all rows of a block."""
    bytes_of = weight.format.bits
    request = MapRequest(
        WORDS, 0, (weight.k * bytes_of // 32, weight.n), (weight.row,), (1, 1),
        (launch.rows.step * bytes_of // 32, launch.tile), l2=L2_128,
    )  # fmt: skip
    return Map(Pointer(WEIGHT), request)
