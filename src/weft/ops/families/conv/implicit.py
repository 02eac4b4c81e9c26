"""Plan single-precision convolutions as matrix products with gathered operands."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.conv import model
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.model import ImplicitTile
from weft.ops.families.conv.split import (
    Split,
    candidate,
    cheapest,
    joining_time,
    parallel_split_k,
    partial_memory,
    serial_split_k,
)

INDEX = 2**31 - 1
"""The largest index of the kernels: of pixels, and of elements within an image."""
MASKED = 32
"""The most taps whose places in the image are bits of a mask."""
VECTORS = 2**20
"""Elements of a gradient from which on its parts are added by vectors: fewer need more threads."""
ROOM = 12288
"""Floats of shared memory in which a block of parts.cu transposes a gradient: 48 KB."""


def fits(job: ConvJob) -> bool:
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


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(job: ConvJob, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g = job.geometry
    rows, sums = (g.c, g.k) if back else (g.k, g.c)
    rows, sums = rows // g.groups, sums // g.groups
    phases, height, width = g.phases(back)
    pixels, depth = g.n * height * width, sums * g.taps
    moved = 4 * (job.first.layout.numel + job.second.layout.numel + job.result.layout.numel)
    # The phases of a strided pass have different depths: they are not split.
    limit = 2 * job.gpu.sms if phases == 1 else 0

    def splits_of() -> Iterator[Candidate]:
        for tile in model.IMPLICIT_TILES:
            t = tile.shape
            tiles = (cdiv(rows, t.bm), cdiv(pixels, t.bn))
            for split in serial_split_k(tiles, phases * g.groups, cdiv(depth, t.bk), 4, limit):
                sums = cdiv(split.each * t.bk, phases)
                time = tile.time(job, split.blocks, sums, moved, tile.reach)
                time += joining_time(t, split)
                build = functools.partial(_windows, job, back, tile, split, phases)
                yield candidate("", job, t, split, time, build)

    return cheapest(splits_of(), most)


def _windows(job: ConvJob, back: bool, tile: ImplicitTile, split: Split, phases: int) -> Plan:
    g = job.geometry
    name = source.template("implicit", *tile.shape, back, g.taps <= MASKED, split.splits > 1)
    kernel = source.kernel("conv/implicit.cu", name)
    parts, scratch = partial_memory(job, tile.shape, split)
    problem = g.problem(
        job.first.images, job.result.images, back=back, splits=split.splits,
        each=split.each * tile.shape.bk, tiles=split.tiles, wide=pixel_vectors(job, back),
    )  # fmt: skip
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, *parts, problem)
    grid = (split.grid, phases, g.groups)
    step = Step(kernel, grid, (tile.shape.threads,), args, tile.shared(0))
    return job.plan(step, scratch=scratch)


def pixel_vectors(job: ConvJob, back: bool) -> bool:
    """True if neighbours of the result are contiguous pixels, in whole 16-byte vectors."""
    n, c, h, w = job.result.images.strides
    each, width = 16 // int(job.out.dtype.itemsize), job.result.layout.shape[-1]
    dense = w == 1 and h in (width, 0)
    return not (back and job.geometry.stride != (1, 1)) and dense and n % each == c % each == 0


# ---- backward to the weight --------------------------------------------------------------------
def gradients(job: ConvJob, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g = job.geometry
    rows, columns = g.k // g.groups, g.c // g.groups * g.taps
    depth, size = g.n * g.p * g.q, g.k * columns
    moved = 4 * (job.first.layout.numel + job.second.layout.numel + job.result.layout.numel)

    def splits_of() -> Iterator[Candidate]:
        for tile in model.IMPLICIT_TILES:
            t = tile.shape
            tiles = (cdiv(rows, t.bm), cdiv(columns, t.bn))
            for split in parallel_split_k(tiles, g.groups, cdiv(depth, t.bk), 8, 16 * job.gpu.sms):
                sums = split.each * t.bk
                time = tile.time(job, split.blocks, sums, moved, tile.weight_reach)
                if split.splits > 1:
                    time += job.gpu.launch + 8 * split.splits * size / job.gpu.bandwidth
                build = functools.partial(_gradients, job, tile, split)
                yield candidate("", job, t, split, time, build)

    return cheapest(splits_of(), most)


def _gradients(job: ConvJob, tile: ImplicitTile, split: Split) -> Plan:
    g = job.geometry
    name = source.template("weight_gradient", *tile.shape, g.taps <= MASKED)
    kernel = source.kernel("conv/weight.cu", name)
    problem = g.problem(
        job.second.images, job.first.images, splits=split.splits, each=split.each * tile.shape.bk,
        tiles=split.tiles,
    )  # fmt: skip
    out, steps, scratch = parted(job, split.splits)
    args = (job.second.pointer, job.first.pointer, out, problem)
    grid = (split.grid, 1, g.groups)
    step = Step(kernel, grid, (tile.shape.threads,), args, tile.shared(4))
    return job.plan(step, *steps, scratch=scratch)


def parted(job: ConvJob, splits: int) -> tuple[Argument, tuple[Step, ...], tuple[Buffer, ...]]:
    """The address of the parts of a gradient, and the launch and the memory to add them."""
    if splits == 1:
        return job.result.pointer, (), ()
    size = job.result.layout.numel
    step = added(job, job.scratch_at(), size, splits)
    return job.scratch_at(), (step,), (Buffer((splits * size,), torch.float32),)


class Transpose(NamedTuple):
    """Channels and taps to exchange; `padded` channels are in memory."""

    channels: int
    taps: int
    padded: int


def added(
    job: ConvJob, parts: Pointer, size: int, count: int, transpose: Transpose | None = None
) -> Step:
    """The launch that adds parts, and exchanges channels and taps."""
    groups, ctype = 8 if count > 16 else 1, source.ctype(job.stored or job.out.dtype)
    args: tuple[Argument, ...] = (parts, job.result.pointer, size, count)
    if not transpose or (transpose.channels == transpose.padded and transpose.taps == 1):
        each = 4 if size % 4 == 0 and size >= VECTORS else 1
        kernel = source.kernel("conv/parts.cu", f"add_parts<{ctype}, {groups}, {each}>")
        return Step(kernel, (cdiv(size, 256 // groups * each),), (256,), args, early=True)
    _, taps, padded = transpose
    groups, wide = next(
        (n, w)
        for n, w in ((groups, 16 if groups > 1 else 64), (1, 32), (1, 4))
        if n * w * taps <= ROOM
    )
    kernel = source.kernel("conv/parts.cu", f"transpose_parts<{ctype}, {groups}, {wide}>")
    blocks = size // (taps * padded) * cdiv(padded, wide)
    return Step(
        kernel, (blocks,), (256,), (*args, *transpose), 4 * groups * wide * taps, early=True
    )
