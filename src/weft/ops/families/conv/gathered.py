"""Plan convolutions of small tensors, by one launch that reads them as they are."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.implicit import MASKED, fits
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.model import GATHERED

ROWS = (1, 2, 4, 8)
"""Channels of a group that a thread computes."""
PARTS = (1, 4)
"""Warps of a block that divide the products of a pixel."""
DEPTH = 256
"""Products whose places are in shared memory at a time."""
STEP = 8
"""Products of a thread whose loads are under way together."""


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    channels, sums = (g.c, g.k) if back else (g.k, g.c)
    channels, sums = channels // g.groups, sums // g.groups
    rows = next((n for n in ROWS if n >= channels), ROWS[-1])
    phases, height, width = g.phases(back)
    blocks = g.groups * cdiv(channels, rows)
    if g.taps > MASKED or blocks > 65535 or not fits(job):
        return []
    return [
        _candidate(job, back, rows, parts, (g.n * height * width, phases, blocks),
                   sums * cdiv(g.taps, phases))
        for parts in PARTS
    ]  # fmt: skip


def _candidate(
    job: ConvJob, back: bool, rows: int, parts: int, size: tuple[int, int, int], depth: int
) -> Candidate:
    """`size` has pixels of a phase, phases and parts of channels; `depth` the products of a sum."""
    gpu = job.gpu
    grid = (cdiv(size[0] * parts, 128), size[1], size[2])
    blocks = grid[0] * grid[1] * grid[2]
    steps = cdiv(depth, STEP * parts)
    # Lanes read pixels side by side, or apart: then a load takes more cycles of the L1.
    apart = job.first.images.strides[3] * (1 if back else job.geometry.stride[1])
    loads = min(32, max(1, apart * int(job.out.dtype.itemsize) // 4))
    cycles = STEP * (loads + 2 + rows / 2)
    most = cdiv(blocks, gpu.sms)
    clock = gpu.fp32 / (gpu.sms * 256)
    busy = most * 4 * steps * cycles / clock
    waves = cdiv(most, gpu.threads_per_sm // 128)
    tables = cdiv(depth, 128) * (1 + rows / 4) * most * 4 * 32 / clock
    moved = sum(t.layout.numel * t.layout.itemsize for t in (job.first, job.second, job.result))
    work = max(waves * steps * GATHERED.wait, busy + tables, moved / gpu.bandwidth)
    build = functools.partial(_plan, job, back, rows, parts, grid)
    name = "gathered" + (f", depth in {parts}" if parts > 1 else "")
    why = f"{blocks} blocks for {gpu.sms} SMs"
    return Candidate(name, job.cost + gpu.launch + GATHERED.start + work, why, build)


def _plan(job: ConvJob, back: bool, rows: int, parts: int, grid: tuple[int, int, int]) -> Plan:
    name = source.template("gathered", source.ctype(job.out.dtype), rows, parts, DEPTH, back)
    problem = job.geometry.problem(job.first.images, job.result.images, back=back)
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, problem)
    kernel = source.kernel("conv/gathered.cu", name)
    return job.plan(Step(kernel, grid, (128,), args))
