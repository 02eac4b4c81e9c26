"""Plans single-precision convolutions as matrix products with gathered operands."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.conv.cut import Cut, candidate, cheapest, joined, joining, memory, separate
from weft.ops.families.conv.job import Job

INDEX = 2**31 - 1
"""The largest index of the kernels: of pixels, and of elements within an image."""
MASKED = 32
"""The most taps whose places in the image are bits of a mask."""
VECTORS = 2**20
"""Elements of a gradient from which on its parts are added by vectors: fewer need more threads."""
ROOM = 12288
"""Floats of shared memory in which a block of parts.cu turns a gradient: 48 KB."""


class Tile(NamedTuple):
    """A tile of the product: the parts computed by a block, a warp and a thread.

    resident  blocks that an SM holds
    reach     the share of the arithmetic peak in the loop over the depth
    gradient  the same in the gradient of weights
    over      seconds before and after the loop
    """

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    tm: int
    tn: int
    stages: int
    resident: int
    reach: float
    gradient: float
    over: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def shared(self, pad_n: int) -> int:
        """Bytes of dynamic shared memory: rows of weights are padded, those of windows by pad_n."""
        return 4 * self.stages * self.bk * (self.bm + 4 + self.bn + pad_n)


TILES = (
    Tile(128, 256, 8, 64, 64, 8, 16, 2, 1, 0.55, 0.56, 4e-6),
    Tile(128, 128, 16, 64, 32, 8, 8, 2, 2, 0.57, 0.46, 4e-6),
    Tile(128, 64, 8, 64, 32, 8, 8, 4, 4, 0.48, 0.40, 4e-6),
    Tile(64, 256, 8, 32, 64, 8, 8, 3, 2, 0.48, 0.45, 4e-6),
    Tile(64, 128, 8, 32, 64, 8, 8, 4, 4, 0.49, 0.38, 4e-6),
    Tile(64, 64, 16, 32, 32, 8, 4, 3, 5, 0.48, 0.45, 2e-6),
    Tile(32, 128, 8, 32, 32, 8, 4, 3, 5, 0.38, 0.30, 2e-6),
    Tile(32, 64, 16, 16, 32, 4, 4, 4, 8, 0.37, 0.25, 1e-6),
    Tile(32, 32, 16, 16, 32, 4, 4, 4, 16, 0.33, 0.16, 2e-6),
)


def fits(job: Job) -> bool:
    """True if the kernels can index the tensors: pixels of the batch, elements of an image."""
    g = job.geometry
    images = [
        sum(
            (n - 1) * abs(s)
            for n, s in zip(t.layout.shape[-3:], t.layout.strides[-3:], strict=True)
        )
        for t in (job.first, job.second, job.result)
    ]
    pixels = g.n * max(g.p * g.q, g.h * g.w)
    window = max(g.r * g.dilation[0], g.s * g.dilation[1])
    return (
        max(pixels, *images, g.k * g.c * g.taps) + 1024 <= INDEX
        and window < 2**15
        and max(g.groups, g.stride[0] * g.stride[1]) < 2**16
    )


def _time(job: Job, tile: Tile, blocks: int, depth: int, moved: int, reach: float) -> float:
    """The modelled time: that of the SM with the most blocks, at least the memory time."""
    gpu = job.gpu
    most = cdiv(blocks, gpu.sms)
    # With less than two warps for each of its four schedulers, an SM waits.
    busy = min(1.0, min(most, tile.resident) * tile.threads / 256)
    rate = gpu.fp32 / gpu.sms * reach * busy
    work = most * 2 * tile.bm * tile.bn * depth / rate + cdiv(most, tile.resident) * tile.over
    return gpu.launch + max(work, moved / gpu.bandwidth) + job.cost


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(job: Job, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    rows, sums = (g.c, g.k) if back else (g.k, g.c)
    rows, sums = rows // g.groups, sums // g.groups
    phases, height, width = g.phases(back)
    pixels, depth = g.n * height * width, sums * g.taps
    moved = 4 * (job.first.layout.numel + job.second.layout.numel + job.result.layout.numel)
    # The phases of a strided pass have different depths: they are not cut.
    limit = 2 * job.gpu.sms if phases == 1 else 0

    def cuts() -> Iterator[Candidate]:
        for tile in TILES:
            tiles = (cdiv(rows, tile.bm), cdiv(pixels, tile.bn))
            for cut in joined(tiles, phases * g.groups, cdiv(depth, tile.bk), 4, limit):
                sums = cdiv(cut.each * tile.bk, phases)
                time = _time(job, tile, cut.blocks, sums, moved, tile.reach) + joining(tile, cut)
                build = functools.partial(_windows, job, back, tile, cut, phases)
                yield candidate("", job, tile, cut, time, build)

    return cheapest(cuts(), most)


def _windows(job: Job, back: bool, tile: Tile, cut: Cut, phases: int) -> Plan:
    g = job.geometry
    flags = (back, g.taps <= MASKED, cut.splits > 1)
    shape = ", ".join((*map(str, tile[:9]), *(str(f).lower() for f in flags)))
    kernel = source.kernel("conv/implicit.cu", f"implicit<{shape}>")
    parts, scratch = memory(job, tile, cut)
    problem = g.problem(
        job.first.images, job.result.images, back=back, splits=cut.splits,
        each=cut.each * tile.bk, tiles=cut.tiles, wide=wide(job, back),
    )  # fmt: skip
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, *parts, problem)
    grid = (cut.grid, phases, g.groups)
    step = Step(kernel, grid, (tile.threads,), args, tile.shared(0))
    return job.plan(step, scratch=scratch)


def wide(job: Job, back: bool) -> bool:
    """True if neighbours of the result are contiguous pixels, in whole 16-byte vectors."""
    n, c, h, w = job.result.images.strides
    each, width = 16 // int(job.out.dtype.itemsize), job.result.layout.shape[-1]
    dense = w == 1 and h in (width, 0)
    return not (back and job.geometry.stride != (1, 1)) and dense and n % each == c % each == 0


# ---- backward to the weight --------------------------------------------------------------------
def gradients(job: Job, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g = job.geometry
    rows, columns = g.k // g.groups, g.c // g.groups * g.taps
    depth, size = g.n * g.p * g.q, g.k * columns
    moved = 4 * (job.first.layout.numel + job.second.layout.numel + job.result.layout.numel)

    def cuts() -> Iterator[Candidate]:
        for tile in TILES:
            tiles = (cdiv(rows, tile.bm), cdiv(columns, tile.bn))
            for cut in separate(tiles, g.groups, cdiv(depth, tile.bk), 8, 16 * job.gpu.sms):
                time = _time(job, tile, cut.blocks, cut.each * tile.bk, moved, tile.gradient)
                if cut.splits > 1:
                    time += job.gpu.launch + 8 * cut.splits * size / job.gpu.bandwidth
                build = functools.partial(_gradients, job, tile, cut)
                yield candidate("", job, tile, cut, time, build)

    return cheapest(cuts(), most)


def _gradients(job: Job, tile: Tile, cut: Cut) -> Plan:
    g = job.geometry
    shape = ", ".join((*map(str, tile[:9]), str(g.taps <= MASKED).lower()))
    kernel = source.kernel("conv/weight.cu", f"weight_gradient<{shape}>")
    problem = g.problem(
        job.second.images, job.first.images, splits=cut.splits, each=cut.each * tile.bk,
        tiles=cut.tiles,
    )  # fmt: skip
    out, steps, scratch = parted(job, cut.splits)
    args = (job.second.pointer, job.first.pointer, out, problem)
    grid = (cut.grid, 1, g.groups)
    step = Step(kernel, grid, (tile.threads,), args, tile.shared(4))
    return job.plan(step, *steps, scratch=scratch)


def parted(job: Job, splits: int) -> tuple[Argument, tuple[Step, ...], tuple[Buffer, ...]]:
    """Where the parts of a gradient go, and the launch and the memory to add them."""
    if splits == 1:
        return job.result.pointer, (), ()
    size = job.result.layout.numel
    step = added(job, job.place(), size, splits)
    return job.place(), (step,), (Buffer((splits * size,), torch.float32),)


def added(job: Job, parts: Pointer, size: int, count: int, turned: tuple[int, ...] = ()) -> Step:
    """The launch that adds parts; `turned` are channels, taps and padded channels to exchange."""
    groups, ctype = 8 if count > 16 else 1, source.ctype(job.out.dtype)
    args: tuple[Argument, ...] = (parts, job.result.pointer, size, count, *turned)
    if not turned or turned[:2] == (turned[2], 1):
        args = args[:4]
        each = 4 if size % 4 == 0 and size >= VECTORS else 1
        kernel = source.kernel("conv/parts.cu", f"add_parts<{ctype}, {groups}, {each}>")
        return Step(kernel, (cdiv(size, 256 // groups * each),), (256,), args)
    _, taps, padded = turned
    groups, wide = next(
        (n, w)
        for n, w in ((groups, 16 if groups > 1 else 64), (1, 32), (1, 4))
        if n * w * taps <= ROOM
    )
    kernel = source.kernel("conv/parts.cu", f"turn_parts<{ctype}, {groups}, {wide}>")
    blocks = size // (taps * padded) * cdiv(padded, wide)
    return Step(kernel, (blocks,), (256,), args, 4 * groups * wide * taps)
