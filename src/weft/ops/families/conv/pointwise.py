"""Plans convolutions of one tap on tensor cores, from images as they are."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.conv.cut import Cut, candidate, cheapest, joining, memory, separate, shared
from weft.ops.families.conv.implicit import added
from weft.ops.families.conv.job import Job, Tensor
from weft.ops.families.conv.packed import Tile, work

TILES = (
    Tile(128, 256, 128, 64, 64, 3, 1, 0.38, 0.37),
    Tile(128, 128, 64, 64, 64, 4, 2, 0.38, 0.33),
    Tile(64, 128, 128, 32, 64, 3, 3, 0.21, 0.23),
    Tile(64, 64, 128, 32, 32, 3, 4, 0.22, 0.22),
)
"""Channels and pixels of the forward pass and of the backward pass to the data."""
WEIGHT_TILES = (
    Tile(128, 64, 128, 64, 32, 3, 3, 0.36),
    Tile(64, 128, 128, 32, 64, 3, 3, 0.35),
    Tile(64, 64, 128, 32, 32, 3, 4, 0.32),
)
"""Filters and channels of the backward pass to the weight."""
TURNED = 0.65
"""The relative rate of smaller tiles whose weights are transposed as they are loaded."""
L2 = 0.93
"""The rate at which the SMs read and write the L2, relative to the memory's."""
STORE = 1e-6
"""Seconds in which a block stores a tile, while it copies the next."""
COPIES = (16, 8)
"""Bytes of a copy of pixels."""


def _vector(job: Job, x: Tensor, shape: tuple[int, int, int, int]) -> int:
    """Bytes of the vectors that pixels of contiguous images are read by: 16, 8, or 0 for none."""
    n, _, h, w = shape
    sn, sc, sh, sw = x.images.strides
    size = int(job.out.dtype.itemsize)
    if not ((w == 1 or sw == 1) and (h == 1 or sh == w)):
        return 0
    lengths = (h * w * size, sc * size, sn * size if n > 1 else 0, x.images.aligned)
    return next((v for v in COPIES if all(length % v == 0 for length in lengths)), 0)


def vector(job: Job, *images: tuple[Tensor, tuple[int, int, int, int]]) -> int:
    """The same for all images of a pass; 0 if it has taps, stride, padding or groups."""
    g = job.geometry
    each = 16 // int(job.out.dtype.itemsize)
    plain = g.taps == g.groups == 1 and g.stride == (1, 1) and (g.p, g.q) == (g.h, g.w)
    if not plain or g.pad != (0, 0) or g.c % each or g.k % each:
        return 0
    return min(_vector(job, x, shape) for x, shape in images)


def windows(job: Job, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g, gpu = job.geometry, job.gpu
    shapes = (g.y, g.x) if back else (g.x, g.y)
    pairs = tuple(zip((job.first, job.result), shapes, strict=True))
    weight = job.second
    copy = vector(job, *pairs)
    if not copy or not weight.layout.contiguous or weight.images.aligned < 16:
        return []
    rows, depth = (g.c, g.k) if back else (g.k, g.c)
    pixels, size = g.n * g.p * g.q, int(job.out.dtype.itemsize)
    moved = size * (job.first.layout.numel + job.result.layout.numel)

    def cuts() -> Iterator[Candidate]:
        for tile in (t for t in TILES if t.bm < 2 * rows or t.bm == 64):
            tiles, deep = (cdiv(rows, tile.bm), cdiv(pixels, tile.bn)), tile.deep // size
            slow = back and tile.bm * tile.bn < 128 * 128
            turned = TURNED if slow else 1.0
            rated = tile._replace(reach=tile.reach * turned, share=tile.share * turned)
            steps = cdiv(depth, deep)
            resident = tile.residents(gpu, _shared(tile, size, back, True))
            passed = tiles[0] * pixels * depth + tiles[0] * tiles[1] * tile.bm * depth
            passed = size * (passed + rows * pixels)
            for cut in (Cut(tiles, 1, 1, 0), *shared(tiles, 1, steps, resident, gpu.sms)):
                sums = (cut.each or steps) * deep
                # Four warps of 64 x 64 keep an SM busy.
                full = 128 if tile.wm * tile.wn == 64 * 64 else 256
                busy = work(job, rated.rated(cut), cut.blocks, sums, full)
                if cut.shares:
                    busy += STORE * cut.each / steps
                busy = max(busy, moved / gpu.bandwidth, passed / (L2 * gpu.bandwidth))
                time = job.cost + gpu.launch + busy + joining(tile, cut)
                build = functools.partial(_windows, job, back, copy, tile, cut)
                yield candidate("one tap ", job, tile, cut, time, build)

    return cheapest(cuts(), most)


def _shared(tile: Tile, size: int, back: bool, shares: bool) -> int:
    """Bytes of shared memory; blocks with several tiles write one while they copy the next."""
    deep = tile.deep // size
    weights = deep * (tile.bm + 8) if back else tile.bm * deep
    ring = tile.stages * size * (weights + deep * (tile.bn + 8))
    return ring + tile.threads // 32 * (4 * tile.wn + 32 * (tile.wn + 8)) * shares


def _windows(job: Job, back: bool, copy: int, tile: Tile, cut: Cut) -> Plan:
    g = job.geometry
    flags = (str(f).lower() for f in (back, cut.shares > 0))
    ctype, size = source.ctype(job.out.dtype), int(job.out.dtype.itemsize)
    shape = ", ".join((ctype, *map(str, (*tile[:7], copy)), *flags))
    kernel = source.kernel("conv/pointwise.cu", f"pointwise<{shape}>")
    parts, scratch = memory(job, tile, cut)
    problem = g.problem(
        job.first.images, job.result.images, back=back, each=cut.each, tiles=cut.tiles
    )
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, *parts, problem)
    room = _shared(tile, size, back, cut.shares > 0)
    step = Step(kernel, (cut.grid,), (tile.threads,), args, room)
    return job.plan(step, scratch=scratch)


def gradients(job: Job, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu, size = job.geometry, job.gpu, int(job.out.dtype.itemsize)
    copy = vector(job, (job.first, g.y), (job.second, g.x))
    if not copy:
        return []
    moved = size * (job.first.layout.numel + job.second.layout.numel)

    def cuts() -> Iterator[Candidate]:
        for tile in WEIGHT_TILES:
            tiles, deep = (cdiv(g.k, tile.bm), cdiv(g.c, tile.bn)), tile.deep // size
            for cut in separate(tiles, 1, g.n * cdiv(g.p * g.q, deep), 4, 8 * gpu.sms):
                busy = work(job, tile, cut.blocks, cut.each * deep)
                time = job.cost + 2 * gpu.launch + max(busy, moved / gpu.bandwidth)
                time += 8 * cut.splits * g.k * g.c / gpu.bandwidth
                build = functools.partial(_gradients, job, copy, tile, cut)
                yield candidate("one tap ", job, tile, cut, time, build)

    return cheapest(cuts(), most)


def _gradients(job: Job, copy: int, tile: Tile, cut: Cut) -> Plan:
    g, ctype = job.geometry, source.ctype(job.out.dtype)
    shape = ", ".join((ctype, *map(str, (*tile[:7], copy))))
    kernel = source.kernel("conv/pointwise.cu", f"pointwise_weight<{shape}>")
    problem = g.problem(
        job.second.images, job.first.images, splits=cut.splits, each=cut.each, tiles=cut.tiles
    )
    args = (job.second.pointer, job.first.pointer, job.place(), problem)
    shared = tile.stages * (tile.bm + tile.bn) * tile.deep
    step = Step(kernel, (cut.grid,), (tile.threads,), args, shared)
    size = g.k * g.c
    last = added(job, job.place(), size, cut.splits)
    return job.plan(step, last, scratch=(Buffer((cut.splits * size,), torch.float32),))
