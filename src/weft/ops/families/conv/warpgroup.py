"""Plans convolutions of 16-bit elements by warpgroups, for Hopper."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.conv import pack
from weft.ops.families.conv.cut import Cut, candidate, cheapest, separate
from weft.ops.families.conv.geometry import dense
from weft.ops.families.conv.implicit import INDEX, added
from weft.ops.families.conv.job import Job
from weft.ops.families.conv.packed import stores_vectors
from weft.ops.families.matmul.model import (
    SLAB_ALIGNMENT,
    WARPGROUP_K,
    WARPGROUP_ROWS,
    WARPGROUP_TILES,
    WarpgroupTile,
)
from weft.ops.families.matmul.warpgroup import CAPABILITY

WEIGHT_TILES = (WARPGROUP_TILES[0]._replace(reach=0.42), WARPGROUP_TILES[1])
"""Channels of dy, and taps and channels of x. One warpgroup that finds the places of all taps is
slower than its products; from times on an H200."""


def applies(job: Job) -> bool:
    gpu = job.gpu
    return gpu.real and gpu.capability == CAPABILITY and job.out.dtype.itemsize == 2


def windows(job: Job, back: bool) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g, gpu = job.geometry, job.gpu
    # The phases of a strided backward pass have some of the taps each.
    if not applies(job) or (back and g.stride != (1, 1)):
        return []
    x = pack.images(job, job.first, g.y if back else g.x, job.place())
    weights = pack.weights(job, x.padded, back, job.place(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    depth = x.padded * g.taps
    if max(x.size, job.first.layout.numel) > INDEX * pack.vector(job) or depth < WARPGROUP_K:
        return []
    n, channels, height, width = g.x if back else g.y
    moved = 2 * (job.first.layout.numel + job.result.layout.numel)
    made = []
    for tile in WARPGROUP_TILES:
        tiles = (cdiv(channels // g.groups, tile.bn), cdiv(n * height * width, WARPGROUP_ROWS))
        blocks = tiles[0] * tiles[1] * g.groups
        work = tile.time(gpu, blocks, cdiv(depth, WARPGROUP_K))
        cost = job.cost + packing.cost + gpu.launch + max(work, moved / gpu.bandwidth)
        why = f"{blocks} blocks for {gpu.sms} SMs, warpgroups"
        build = functools.partial(_plan, packing, tile, tiles)
        made.append(Candidate(f"warpgroups {WARPGROUP_ROWS} x {tile.bn}", cost, why, build))
    return made


def _kernel(name: str, job: Job, tile: WarpgroupTile, *flags: bool) -> Kernel:
    words = (str(tile.bn), str(tile.stages), *(str(f).lower() for f in (tile.producer, *flags)))
    shape = ", ".join((source.ctype(job.out.dtype), *words))
    return source.kernel(f"conv/{name}.cu", f"{name}<{shape}>")


def _plan(packing: pack.Packing, tile: WarpgroupTile, tiles: tuple[int, int]) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    kernel = _kernel("warpgroup", job, tile, back)
    problem = job.geometry.problem(
        x.images, job.result.images, back=back, tiles=tiles, padded=x.padded,
        wide=stores_vectors(job, back),
    )  # fmt: skip
    args = (x.pointer, weights.pointer, job.bias, job.result.pointer, problem)
    # The stages, or later what eight warps turn their results in: see write.cuh.
    turning = 8 * (8 * 16 + max(8 * 24 * 2, 16 * (tile.bn + 8) * 2))
    room = SLAB_ALIGNMENT + max(2 * WARPGROUP_K * tile.stages * (WARPGROUP_ROWS + tile.bn), turning)
    step = Step(kernel, (tiles[0] * tiles[1], 1, job.geometry.groups), (tile.threads,), args, room)
    return job.plan(*packing.steps(), step, scratch=packing.buffers)


# ---- backward to the weight --------------------------------------------------------------------
class Sides(NamedTuple):
    """A tile for the name of a candidate."""

    bm: int
    bn: int


def gradients(job: Job, most: int = 4) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu = job.geometry, job.gpu
    if not applies(job):
        return []
    dy = pack.images(job, job.first, g.y, job.place())
    x = pack.images(job, job.second, g.x, job.place(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    pixels, columns = g.n * g.p * g.q, g.taps * x.padded
    if not dense(dy.images.strides, g.n, g.p, g.q) or pixels < WARPGROUP_K:
        return []  # pixels of dy are numbered
    moved = 2 * (job.first.layout.numel + job.second.layout.numel)

    def cuts() -> Iterator[Candidate]:
        for tile in WEIGHT_TILES:
            tiles = (cdiv(g.k // g.groups, WARPGROUP_ROWS), cdiv(columns, tile.bn))
            for cut in separate(tiles, g.groups, cdiv(pixels, WARPGROUP_K), 4, 8 * gpu.sms):
                work = tile.time(gpu, cut.blocks, cut.each)
                time = job.cost + packing.cost + 2 * gpu.launch + max(work, moved / gpu.bandwidth)
                time += 8 * cut.splits * g.k * columns / gpu.bandwidth
                build = functools.partial(_gradients, packing, tile, cut)
                yield candidate(
                    "warpgroups ", job, Sides(WARPGROUP_ROWS, tile.bn), cut, time, build
                )

    return cheapest(cuts(), most)


def _gradients(packing: pack.Packing, tile: WarpgroupTile, cut: Cut) -> Plan:
    job, (dy, x) = packing.job, packing.images
    g = job.geometry
    size = g.k * g.taps * x.padded
    buffers = (*packing.buffers, Buffer((cut.splits * size,), torch.float32))
    parts = job.place(len(buffers) - 1)
    problem = g.problem(
        x.images, dy.images, splits=cut.splits, each=cut.each, tiles=cut.tiles, padded=x.padded,
        target_group=dy.padded,
    )  # fmt: skip
    args = (x.pointer, dy.pointer, parts, problem)
    room = SLAB_ALIGNMENT + 2 * WARPGROUP_K * tile.stages * (WARPGROUP_ROWS + tile.bn)
    step = Step(
        _kernel("warpgroup_weight", job, tile), (cut.grid, 1, g.groups), (tile.threads,), args, room
    )
    last = added(job, parts, size, cut.splits, (g.c // g.groups, g.taps, x.padded))
    return job.plan(*packing.steps(), step, last, scratch=buffers)
