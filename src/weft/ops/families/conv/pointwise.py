"""Plan convolutions of one tap on tensor cores, from images as they are."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.conv import model
from weft.ops.families.conv.implicit import added
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.model import TensorTile
from weft.ops.families.conv.split import (
    Split,
    candidate,
    cheapest,
    joining_time,
    parallel_split_k,
    partial_memory,
    stream_k,
)

COPIES = (16, 8)
"""Bytes of a copy of pixels."""


def _vector(job: ConvJob, x: Tensor, shape: tuple[int, int, int, int]) -> int:
    """Bytes of the vectors that pixels of contiguous images are read by: 16, 8, or 0 for none."""
    n, _, h, w = shape
    sn, sc, sh, sw = x.images.strides
    size = int(job.out.dtype.itemsize)
    if not ((w == 1 or sw == 1) and (h == 1 or sh == w)):
        return 0
    lengths = (h * w * size, sc * size, sn * size if n > 1 else 0, x.images.aligned)
    return next((v for v in COPIES if all(length % v == 0 for length in lengths)), 0)


def vector(job: ConvJob, *images: tuple[Tensor, tuple[int, int, int, int]]) -> int:
    """The same for all images of a pass; 0 if it has taps, stride, padding or groups."""
    g = job.geometry
    each = 16 // int(job.out.dtype.itemsize)
    plain = g.taps == g.groups == 1 and g.stride == (1, 1) and (g.p, g.q) == (g.h, g.w)
    if not plain or g.pad != (0, 0) or g.c % each or g.k % each:
        return 0
    return min(_vector(job, x, shape) for x, shape in images)


def windows(job: ConvJob, back: bool, most: int = 6) -> list[Candidate]:
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

    def splits_of() -> Iterator[Candidate]:
        for tile in (t for t in model.POINTWISE_TILES if t.bm < 2 * rows or t.bm == 64):
            tiles, step = (cdiv(rows, tile.bm), cdiv(pixels, tile.bn)), tile.stage // size
            slow = back and tile.bm * tile.bn < 128 * 128
            rate = model.POINTWISE.transposed_rate if slow else 1.0
            rated = tile._replace(reach=tile.reach * rate, stream_reach=tile.stream_reach * rate)
            steps = cdiv(depth, step)
            resident = tile.stream_blocks(gpu, _shared(tile, size, back, True))
            passed = tiles[0] * pixels * depth + tiles[0] * tiles[1] * tile.bm * depth
            passed = size * (passed + rows * pixels)
            for split in (Split(tiles, 1, 1, 0), *stream_k(tiles, 1, steps, resident, gpu.sms)):
                sums = (split.each or steps) * step
                # Four warps of 64 x 64 keep an SM busy.
                full = 128 if tile.wm * tile.wn == 64 * 64 else 256
                busy = rated.streamed(split.stream_k > 0).time(job, split.blocks, sums, full)
                if split.stream_k:
                    busy += model.POINTWISE.store * split.each / steps
                l2 = model.POINTWISE.l2_rate * gpu.bandwidth
                busy = max(busy, moved / gpu.bandwidth, passed / l2)
                time = job.cost + gpu.launch + busy + joining_time(tile, split)
                build = functools.partial(_windows, job, back, copy, tile, split)
                yield candidate("one tap ", job, tile, split, time, build)

    return cheapest(splits_of(), most)


def _shared(tile: TensorTile, size: int, back: bool, shares: bool) -> int:
    """Bytes of shared memory; blocks with several tiles write one while they copy the next."""
    deep = tile.stage // size
    weights = deep * (tile.bm + 8) if back else tile.bm * deep
    ring = tile.stages * size * (weights + deep * (tile.bn + 8))
    return ring + tile.threads // 32 * (4 * tile.wn + 32 * (tile.wn + 8)) * shares


def _windows(job: ConvJob, back: bool, copy: int, tile: TensorTile, split: Split) -> Plan:
    g = job.geometry
    ctype, size = source.ctype(job.out.dtype), int(job.out.dtype.itemsize)
    name = source.template("pointwise", ctype, *tile.words, copy, back, split.stream_k > 0)
    kernel = source.kernel("conv/pointwise.cu", name)
    parts, scratch = partial_memory(job, tile, split)
    problem = g.problem(
        job.first.images, job.result.images, back=back, each=split.each, tiles=split.tiles
    )
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, *parts, problem)
    room = _shared(tile, size, back, split.stream_k > 0)
    step = Step(kernel, (split.grid,), (tile.threads,), args, room)
    return job.plan(step, scratch=scratch)


def gradients(job: ConvJob, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu, size = job.geometry, job.gpu, int(job.out.dtype.itemsize)
    copy = vector(job, (job.first, g.y), (job.second, g.x))
    if not copy:
        return []
    moved = size * (job.first.layout.numel + job.second.layout.numel)

    def splits_of() -> Iterator[Candidate]:
        for tile in model.POINTWISE_WEIGHT_TILES:
            tiles, step = (cdiv(g.k, tile.bm), cdiv(g.c, tile.bn)), tile.stage // size
            for split in parallel_split_k(tiles, 1, g.n * cdiv(g.p * g.q, step), 4, 8 * gpu.sms):
                busy = tile.time(job, split.blocks, split.each * step)
                time = job.cost + 2 * gpu.launch + max(busy, moved / gpu.bandwidth)
                time += 8 * split.splits * g.k * g.c / gpu.bandwidth
                build = functools.partial(_gradients, job, copy, tile, split)
                yield candidate("one tap ", job, tile, split, time, build)

    return cheapest(splits_of(), most)


def _gradients(job: ConvJob, copy: int, tile: TensorTile, split: Split) -> Plan:
    g, ctype = job.geometry, source.ctype(job.out.dtype)
    name = source.template("pointwise_weight", ctype, *tile.words, copy)
    kernel = source.kernel("conv/pointwise.cu", name)
    problem = g.problem(
        job.second.images, job.first.images, splits=split.splits, each=split.each, tiles=split.tiles
    )
    args = (job.second.pointer, job.first.pointer, job.scratch_at(), problem)
    shared = tile.stages * (tile.bm + tile.bn) * tile.stage
    step = Step(kernel, (split.grid,), (tile.threads,), args, shared)
    size = g.k * g.c
    last = added(job, job.scratch_at(), size, split.splits)
    return job.plan(step, last, scratch=(Buffer((split.splits * size,), torch.float32),))
