"""Plan convolutions with few channels in the result, by threads that compute strips of rows."""

from __future__ import annotations

import functools

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.implicit import INDEX, fits
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.model import SKINNY_OVERHEAD, STRIPS_REACH

ROWS = 4
"""The most channels of a group; a thread computes all."""
PIXELS = (8, 4)
"""Columns of a strip, of each phase."""
TAPS = 49
"""The most taps of a filter: the loop over them is written out."""
ROOM = 4096
"""Weights in shared memory."""
SUMS = 32
"""The most sums of a thread whose warp shares its strips."""


def _vectors(t: Tensor, width: int, pixels: int) -> bool:
    """True if the rows are vectors of `pixels` elements."""
    size, strides = t.layout.itemsize, t.images.strides
    aligned = t.images.aligned >= min(16, pixels * size)
    return aligned and width % pixels == 0 and all(s % pixels == 0 for s in strides[:3])


def _pixels(job: ConvJob, back: bool) -> int:
    """Columns of a strip; 0 if the kernel does not take this convolution."""
    g = job.geometry
    channels = (g.c if back else g.k) // g.groups
    strides = g.stride[0] == g.stride[1] and g.stride[0] in ((1, 2) if back else (1,))
    taps = g.dilation == (1, 1) and g.taps <= TAPS and g.pad[0] < g.r and g.pad[1] < g.s
    rows = job.first.images.strides[3] == job.result.images.strides[3] == 1
    if channels > ROWS or not (strides and taps and rows and fits(job)) or g.n * g.h * g.w > INDEX:
        return 0
    width = g.q if back else g.w
    beside = max(g.s - 1 - g.pad[1], g.pad[1] + 1)
    return next((n for n in PIXELS if n >= beside and _vectors(job.first, width, n)), 0)


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """The candidate of the forward pass, or of the backward pass to the data."""
    pixels = _pixels(job, back)
    if not pixels:
        return []
    g, gpu = job.geometry, job.gpu
    stride = g.stride[0] if back else 1
    n, channels, h, w = g.x if back else g.y
    strips = n * cdiv(h, stride) * cdiv(cdiv(w, stride), pixels)
    channels //= g.groups
    depth = (g.k if back else g.c) // g.groups
    # Few strips: the warps of a block divide the channels that they sum among them.
    idle = cdiv(strips, 128) * g.groups < gpu.sms
    split = idle and channels * stride**2 * pixels <= SUMS and depth >= 8
    blocks = cdiv(strips, 32 if split else 128)
    # An SM needs the warps of two blocks to keep its arithmetic busy.
    most = max(cdiv(blocks * g.groups, gpu.sms), 2)
    moved = sum(t.layout.numel * t.layout.itemsize for t in (job.first, job.second, job.result))
    sums = cdiv(depth, 4 if split else 1) * g.taps * channels
    work = 2 * most * 128 * pixels * sums / (gpu.fp32 / gpu.sms * STRIPS_REACH)
    time = job.cost + gpu.launch + max(work, moved / gpu.bandwidth) + SKINNY_OVERHEAD
    build = functools.partial(_windows, job, back, pixels, split, (blocks, g.groups))
    why = f"{blocks * g.groups} blocks for {gpu.sms} SMs"
    return [Candidate("few channels, strips", time, why, build)]


def _windows(job: ConvJob, back: bool, pixels: int, split: bool, grid: tuple[int, int]) -> Plan:
    g = job.geometry
    stride, pad = (g.stride[0], g.pad) if back else (1, (g.r - 1 - g.pad[0], g.s - 1 - g.pad[1]))
    width, channels = g.w if back else g.q, (g.c if back else g.k) // g.groups
    shape = (channels, g.r, g.s, stride, *pad, pixels, ROOM, not back, split)
    name = source.template("strips", source.ctype(job.out.dtype), *shape)
    each = min(16 // int(job.out.dtype.itemsize), pixels * stride)
    wide = _vectors(job.result, width, each)
    problem = g.problem(job.first.images, job.result.images, back=back, wide=wide)
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, problem)
    kernel = source.kernel("conv/strips.cu", name)
    return job.plan(Step(kernel, grid, (128,), args))
