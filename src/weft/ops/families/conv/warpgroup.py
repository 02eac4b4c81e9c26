"""Plan convolutions of 16-bit elements by warpgroups, for Hopper."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.conv import model, pack
from weft.ops.families.conv.geometry import dense
from weft.ops.families.conv.implicit import INDEX, Transpose, added
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.packed_gemm import stores_vectors
from weft.ops.families.conv.split import Split, candidate, cheapest, parallel_split_k
from weft.ops.families.matmul import half_model
from weft.ops.families.matmul.half_model import (
    SLAB_ALIGNMENT,
    WARPGROUP_K,
    WARPGROUP_ROWS,
    WarpgroupTile,
)
from weft.ops.families.matmul.pipelined import CAPABILITY


def applies(job: ConvJob) -> bool:
    gpu = job.gpu
    return gpu.capability == CAPABILITY and job.out.dtype.itemsize == 2


def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g, gpu = job.geometry, job.gpu
    # The phases of a strided backward pass have some of the taps each.
    if not applies(job) or (back and g.stride != (1, 1)):
        return []
    x = pack.images(job, job.first, g.y if back else g.x, job.scratch_at())
    weights = pack.weights(job, x.padded, back, job.scratch_at(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    depth = x.padded * g.taps
    if max(x.size, job.first.layout.numel) > INDEX * pack.vector(job) or depth < WARPGROUP_K:
        return []
    n, channels, height, width = g.x if back else g.y
    moved = 2 * (job.first.layout.numel + job.result.layout.numel)
    made = []
    for tile in half_model.WARPGROUP_TILES:
        tiles = (cdiv(channels // g.groups, tile.bn), cdiv(n * height * width, WARPGROUP_ROWS))
        blocks = tiles[0] * tiles[1] * g.groups
        work = tile.time(gpu, blocks, cdiv(depth, WARPGROUP_K))
        cost = job.cost + packing.cost + gpu.launch + max(work, moved / gpu.bandwidth)
        why = f"{blocks} blocks for {gpu.sms} SMs, warpgroups"
        build = functools.partial(_plan, packing, tile, tiles)
        made.append(Candidate(f"warpgroups {WARPGROUP_ROWS} x {tile.bn}", cost, why, build))
    return made


def _kernel(name: str, job: ConvJob, tile: WarpgroupTile, *flags: bool) -> Kernel:
    words = (source.ctype(job.out.dtype), tile.bn, tile.stages, tile.producer, *flags)
    return source.kernel(f"conv/{name}.cu", source.template(name, *words))


def _plan(packing: pack.Packing, tile: WarpgroupTile, tiles: tuple[int, int]) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    kernel = _kernel("warpgroup", job, tile, back)
    problem = job.geometry.problem(
        x.images, job.result.images, back=back, tiles=tiles, padded=x.padded,
        wide=stores_vectors(job, back),
    )  # fmt: skip
    args = (x.pointer, weights.pointer, job.bias, job.result.pointer, problem)
    # The stages, or later the rows in which eight warps transpose their results: see write.cuh.
    writing = 8 * (8 * 16 + max(8 * 24 * 2, 16 * (tile.bn + 8) * 2))
    room = SLAB_ALIGNMENT + max(tile.ring, writing)
    step = Step(kernel, (tiles[0] * tiles[1], 1, job.geometry.groups), (tile.threads,), args, room)
    return job.plan(*packing.steps(), step, scratch=packing.buffers)


# ---- backward to the weight --------------------------------------------------------------------
class Sides(NamedTuple):
    """A tile for the name of a candidate."""

    bm: int
    bn: int


def gradients(job: ConvJob, most: int = 4) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu = job.geometry, job.gpu
    if not applies(job):
        return []
    dy = pack.images(job, job.first, g.y, job.scratch_at())
    x = pack.images(job, job.second, g.x, job.scratch_at(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    pixels, columns = g.n * g.p * g.q, g.taps * x.padded
    if not dense(dy.images.strides, g.n, g.p, g.q) or pixels < WARPGROUP_K:
        return []  # pixels of dy are numbered
    moved = 2 * (job.first.layout.numel + job.second.layout.numel)

    def splits_of() -> Iterator[Candidate]:
        for tile in model.WARPGROUP_WEIGHT_TILES:
            tiles = (cdiv(g.k // g.groups, WARPGROUP_ROWS), cdiv(columns, tile.bn))
            for split in parallel_split_k(
                tiles, g.groups, cdiv(pixels, WARPGROUP_K), 4, 8 * gpu.sms
            ):
                work = tile.time(gpu, split.blocks, split.each)
                time = job.cost + packing.cost + 2 * gpu.launch + max(work, moved / gpu.bandwidth)
                time += 8 * split.splits * g.k * columns / gpu.bandwidth
                build = functools.partial(_gradients, packing, tile, split)
                yield candidate(
                    "warpgroups ", job, Sides(WARPGROUP_ROWS, tile.bn), split, time, build
                )

    return cheapest(splits_of(), most)


def _gradients(packing: pack.Packing, tile: WarpgroupTile, split: Split) -> Plan:
    job, (dy, x) = packing.job, packing.images
    g = job.geometry
    size = g.k * g.taps * x.padded
    buffers = (*packing.buffers, Buffer((split.splits * size,), torch.float32))
    parts = job.scratch_at(len(buffers) - 1)
    problem = g.problem(
        x.images, dy.images, splits=split.splits, each=split.each, tiles=split.tiles,
        padded=x.padded, target_group=dy.padded,
    )  # fmt: skip
    args = (x.pointer, dy.pointer, parts, problem)
    room = SLAB_ALIGNMENT + tile.ring
    step = Step(
        _kernel("warpgroup_weight", job, tile),
        (split.grid, 1, g.groups),
        (tile.threads,),
        args,
        room,
    )
    last = added(job, parts, size, split.splits, Transpose(g.c // g.groups, g.taps, x.padded))
    return job.plan(*packing.steps(), step, last, scratch=buffers)
