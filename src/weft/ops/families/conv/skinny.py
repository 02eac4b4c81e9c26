"""Plan convolutions with few channels in the result, for which matrix products are too large."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.implicit import fits
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.model import SKINNY_OVERHEAD, SKINNY_PHASES, SKINNY_REACH

ROWS = (1, 2, 4)
"""Channels of a group that a thread computes."""
PIXELS = 4
"""Pixels that a thread computes."""
ROOM = 4096
"""Weights in shared memory."""


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """The candidate of the forward pass, or of the backward pass to the data."""
    g, gpu = job.geometry, job.gpu
    channels = (g.c if back else g.k) // g.groups
    if channels > ROWS[-1] or g.taps * ROWS[-1] > ROOM or not fits(job):
        return []
    rows = next(n for n in ROWS if n >= channels)
    phases, height, width = g.phases(back)
    blocks = cdiv(g.n * height * width, PIXELS * 128)
    sums = (g.k if back else g.c) // g.groups * g.taps
    # An SM needs the warps of eight blocks to cover the latency of loads.
    most = cdiv(blocks * phases * g.groups, gpu.sms)
    products = max(most, 8) * PIXELS * 128 * rows * cdiv(sums, phases) * gpu.sms
    moved = sum(t.layout.numel * t.layout.itemsize for t in (job.first, job.second, job.result))
    work = 2 * products / (gpu.fp32 * SKINNY_REACH[rows])
    work /= SKINNY_PHASES if phases > 1 else 1.0
    time = job.cost + gpu.launch + max(work, moved / gpu.bandwidth) + SKINNY_OVERHEAD
    build = functools.partial(_windows, job, back, rows, (blocks, phases, g.groups))
    return [Candidate("few channels", time, f"{blocks * phases * g.groups} blocks", build)]


def _windows(job: ConvJob, back: bool, rows: int, grid: tuple[int, int, int]) -> Plan:
    name = source.template("skinny", source.ctype(job.out.dtype), rows, PIXELS, ROOM, back)
    problem = job.geometry.problem(job.first.images, job.result.images, back=back)
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, problem)
    return job.plan(Step(source.kernel("conv/skinny.cu", name), grid, (128,), args))
