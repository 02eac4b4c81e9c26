"""Plans convolutions of one tap on tensor cores, from images as they are."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.conv.cut import Cut, candidate, cheapest, joined, joining, memory, separate
from weft.ops.conv.implicit import added
from weft.ops.conv.job import Job, Tensor
from weft.ops.conv.packed import Tile, work
from weft.ops.plan import Buffer, Plan, Step

TILES = (
    Tile(128, 128, 128, 64, 64, 3, 2, 0.33),
    Tile(128, 64, 128, 64, 32, 3, 3, 0.25),
    Tile(64, 128, 128, 32, 64, 3, 3, 0.26),
    Tile(64, 64, 128, 32, 32, 3, 4, 0.22),
)
"""Channels and pixels of the forward pass and of the backward pass to the data."""
WEIGHT_TILES = (
    Tile(128, 64, 128, 64, 32, 3, 3, 0.36),
    Tile(64, 128, 128, 32, 64, 3, 3, 0.35),
    Tile(64, 64, 128, 32, 32, 3, 4, 0.28),
)
"""Filters and channels of the backward pass to the weight."""
TURNED = 0.65
"""The relative rate of smaller tiles whose weights are transposed as they are loaded."""
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
        for tile in TILES:
            tiles, deep = (cdiv(rows, tile.bm), cdiv(pixels, tile.bn)), tile.deep // size
            slow = back and tile.bm * tile.bn < 128 * 128
            rated = tile._replace(reach=tile.reach * TURNED) if slow else tile
            for cut in joined(tiles, 1, cdiv(depth, deep), 4, gpu.sms):
                busy = work(job, rated, cut.blocks, cut.each * deep)
                time = job.cost + gpu.launch + max(busy, moved / gpu.bandwidth)
                build = functools.partial(_windows, job, back, copy, tile, cut)
                yield candidate("one tap ", job, tile, cut, time + joining(tile, cut), build)

    return cheapest(cuts(), most)


def _windows(job: Job, back: bool, copy: int, tile: Tile, cut: Cut) -> Plan:
    g = job.geometry
    flags = (str(f).lower() for f in (back, cut.splits > 1))
    ctype, size = source.ctype(job.out.dtype), int(job.out.dtype.itemsize)
    shape = ", ".join((ctype, *map(str, (*tile[:7], copy)), *flags))
    kernel = source.kernel("conv/pointwise.cu", f"pointwise<{shape}>")
    parts, scratch = memory(job, tile, cut)
    deep = tile.deep // size
    problem = g.problem(
        job.first.images, job.result.images, back=back, splits=cut.splits, each=cut.each * deep,
        tiles=cut.tiles,
    )  # fmt: skip
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, *parts, problem)
    weights = deep * (tile.bm + 8) if back else tile.bm * deep
    shared = tile.stages * size * (weights + deep * (tile.bn + 8))
    step = Step(kernel, (cut.count * cut.splits,), (tile.threads,), args, shared)
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
    step = Step(kernel, (cut.count * cut.splits,), (tile.threads,), args, shared)
    size = g.k * g.c
    last = added(job, job.place(), size, cut.splits)
    return job.plan(step, last, scratch=(Buffer((cut.splits * size,), torch.float32),))
