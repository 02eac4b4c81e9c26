"""Plan the passes on tensor cores that read packed tensors, for the kernels of tensor and taps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.conv import pack
from weft.ops.families.conv.implicit import INDEX, Transpose, added, pixel_vectors
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.model import TensorTile
from weft.ops.families.conv.split import (
    Split,
    candidate,
    cheapest,
    joining_time,
    parallel_split_k,
    partial_memory,
    serial_split_k,
    stream_k,
)

HALF_MEMORY = 0.5
"""Share of the memory's rate that windows of 16-bit elements reach: ResNet-50's layers of one tap
in benchmarks/records/conv_candidates.jsonl."""
TABLES = 8192
"""Bytes of shared memory for the places of pixels in the gradients of weights, at most."""


@dataclass(frozen=True)
class TensorKernels:
    """The kernels of a pass: their file and name, the word for their candidates, their tiles.

    taps    of a row that share copies; 1 for the kernels that copy each tap
    shared  bytes of shared memory of a tile
    """

    name: str
    kind: str
    tiles: Sequence[TensorTile]
    shared: Callable[[TensorTile], int]
    taps: int = 1

    def instance(self, job: ConvJob, tile: TensorTile, *flags: bool) -> Kernel:
        """The kernel of a tile."""
        taps = (self.taps,) * (self.taps > 1)
        name = job.kernel(self.name, *taps, *tile.words, *flags)
        return source.kernel(f"conv/{self.name}.cu", name)


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(
    family: TensorKernels, job: ConvJob, back: bool, pixels: int, phases: int, most: int
) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data.

    pixels  rows of the product, of each of `phases`
    """
    g, size = job.geometry, int(job.out.dtype.itemsize)
    x = pack.images(job, job.first, g.y if back else g.x, job.scratch_at())
    weights = pack.weights(job, x.padded, back, job.scratch_at(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    if max(x.size, job.first.layout.numel) > INDEX * pack.vector(job):
        return []  # the kernels number 16-byte vectors of the images
    rows = (g.c if back else g.k) // g.groups
    # Channels of a packed tensor that are not there are read, too.
    moved = size * (max(x.size, job.first.layout.numel) + job.result.layout.numel)

    # The part of the taps that the phase with the most has.
    largest = cdiv(g.r, g.stride[0]) * cdiv(g.s, g.stride[1])
    part = (largest, g.taps) if phases > 1 else (1, 1)

    def splits_of(tile: TensorTile, steps: int) -> Iterator[Split]:
        tiles, copies = (cdiv(rows, tile.bn), cdiv(pixels, tile.bm)), phases * g.groups
        if family.taps > 1:
            yield from serial_split_k(tiles, copies, steps, 2, job.gpu.sms)
            return
        yield Split(tiles, copies, 1, 0)
        if phases == 1:  # the phases of a strided pass have different depths
            resident = tile.stream_blocks(job.gpu, family.shared(tile) + writing(tile, size))
            yield from stream_k(tiles, copies, steps, resident, job.gpu.sms)

    def candidates() -> Iterator[Candidate]:
        for tile in family.tiles:
            step = tile.stage // size
            depth = g.r * cdiv(x.padded, step) if family.taps > 1 else cdiv(x.padded * g.taps, step)
            for split in splits_of(tile, depth):
                sums = cdiv((split.each or depth) * step * family.taps * part[0], part[1])
                if phases > 1 and split.blocks > job.gpu.sms:  # an SM has blocks of several phases
                    sums = cdiv(depth * step, phases)
                rated = tile.streamed(split.stream_k > 0)
                memory = moved / job.gpu.bandwidth / (HALF_MEMORY if size == 2 else 1)
                busy = max(rated.time(job, split.blocks, sums), memory)
                time = job.cost + packing.cost + job.gpu.launch + busy + joining_time(tile, split)
                build = functools.partial(_windows, family, packing, tile, split, phases)
                yield candidate(f"{family.kind} ", job, tile, split, time, build)

    return cheapest(candidates(), most)


def writing(tile: TensorTile, size: int) -> int:
    """Bytes of shared memory in which the warps transpose results of `size` bytes (tensor.cuh)."""
    warp = 8 * tile.wm + max(8 * (tile.wm + 8) * size, 32 * (tile.wn + 8))
    return tile.threads // 32 * warp


def _windows(
    family: TensorKernels, packing: pack.Packing, tile: TensorTile, split: Split, phases: int
) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not x.size
    made = family.instance(job, tile, back, split.splits > 1 or split.stream_k > 0, rounded)
    parts, scratch = partial_memory(job, tile, split, packing.buffers)
    problem = g.problem(
        x.images, job.result.images, back=back, splits=split.splits, each=split.each,
        tiles=split.tiles, padded=x.padded, wide=stores_vectors(job, back),
    )  # fmt: skip
    args = (x.pointer, weights.pointer, *job.epilogue, job.result.pointer, *parts, problem)
    grid = (split.grid, phases, g.groups)
    room = family.shared(tile) + (
        writing(tile, int(job.out.dtype.itemsize)) if split.stream_k else 0
    )
    step = Step(made, grid, (tile.threads,), args, room)
    return job.plan(*packing.steps(), step, scratch=scratch)


def stores_vectors(job: ConvJob, back: bool) -> bool:
    """True if the results are stored by vectors: of pixels, or of channels that are innermost."""
    g = job.geometry
    if job.result.images.strides[1] != 1:
        return pixel_vectors(job, back)
    return (g.c if back else g.k) // g.groups % pack.vector(job) == 0


# ---- backward to the weight --------------------------------------------------------------------
def gradients(
    family: TensorKernels, job: ConvJob, depth: int, across: Callable[[int, int], int], most: int
) -> list[Candidate]:
    """Candidates of the backward pass to the weight.

    depth   pixels over which the product sums
    across  tiles along taps and channels, of the padded channels and a tile's columns
    """
    g, size = job.geometry, int(job.out.dtype.itemsize)
    dy = pack.images(job, job.first, g.y, job.scratch_at())
    x = pack.images(job, job.second, g.x, job.scratch_at(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    moved = size * (job.first.layout.numel + job.second.layout.numel)

    def candidates() -> Iterator[Candidate]:
        for row in family.tiles:
            # As many bytes of both types: half as many pixels of float32.
            tile = row._replace(stage=row.stage * 2 // size)
            tiles = (cdiv(g.k // g.groups, tile.bm), across(x.padded, tile.bn))
            steps = cdiv(depth, tile.stage)
            whole = tile._replace(bn=family.taps * tile.bn)
            resident = tile.stream_blocks(job.gpu, family.shared(tile) * size + TABLES)
            splits_of = (
                *parallel_split_k(tiles, g.groups, steps, 4, 8 * job.gpu.sms),
                *stream_k(tiles, g.groups, steps, resident, job.gpu.sms),
            )
            for split in splits_of:
                rated = whole.streamed(split.stream_k > 0)
                busy = rated.time(job, split.blocks, split.each * tile.stage)
                time = job.cost + packing.cost + 2 * job.gpu.launch + joining_time(whole, split)
                time += max(busy, moved / job.gpu.bandwidth)
                time += 8 * split.splits * g.k * g.taps * x.padded / job.gpu.bandwidth
                build = functools.partial(_gradients, family, packing, tile, split)
                yield candidate(f"{family.kind} ", job, tile, split, time, build)

    return cheapest(candidates(), most)


def _gradients(
    family: TensorKernels, packing: pack.Packing, tile: TensorTile, split: Split
) -> Plan:
    job, (dy, x) = packing.job, packing.images
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not (x.size and dy.size)
    made = family.instance(job, tile, split.stream_k > 0, rounded)
    size = g.k * g.taps * x.padded
    buffers = (*packing.buffers, Buffer((split.splits * size,), torch.float32))
    parts = job.scratch_at(len(buffers) - 1)
    rest, scratch = partial_memory(job, tile._replace(bn=family.taps * tile.bn), split, buffers)
    problem = g.problem(
        x.images, dy.images, splits=split.splits, each=split.each, tiles=split.tiles,
        padded=x.padded, target_group=dy.padded,
    )  # fmt: skip
    threads = tile.bm // tile.wm * (family.taps * tile.bn // tile.wn) * 32
    room = family.shared(tile) * int(job.out.dtype.itemsize)
    args = (x.pointer, dy.pointer, parts, *rest, problem)
    step = Step(made, (split.grid, 1, g.groups), (threads,), args, room)
    last = added(job, parts, size, split.splits, Transpose(g.c // g.groups, g.taps, x.padded))
    return job.plan(*packing.steps(), step, last, scratch=scratch)
