"""Plans the passes on tensor cores that read packed tensors, for the kernels of tensor and taps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.conv import pack
from weft.ops.conv.cut import Cut, candidate, cheapest, joined, joining, memory, separate
from weft.ops.conv.implicit import added, wide
from weft.ops.conv.job import Job
from weft.ops.plan import Buffer, Plan, Step


class Tile(NamedTuple):
    """A tile of the product: the parts computed by a block and a warp.

    deep      bytes along the depth for a stage (windows), or pixels (gradients of weights)
    resident  blocks that an SM holds
    reach     the share of the tensor cores' rate in the loop over the depth
    """

    bm: int
    bn: int
    deep: int
    wm: int
    wn: int
    stages: int
    resident: int
    reach: float

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32


def work(job: Job, tile: Tile, blocks: int, depth: int) -> float:
    """Seconds of the SM with the most blocks; `depth` in elements."""
    gpu = job.gpu
    most = cdiv(blocks, gpu.sms)
    busy = min(1.0, min(most, tile.resident) * tile.threads / 256)
    rate = gpu.tf32 * (2 if job.out.dtype.itemsize == 2 else 1) / gpu.sms * tile.reach * busy
    return most * 2 * tile.bm * tile.bn * depth / rate + cdiv(most, tile.resident) * 4e-6


@dataclass(frozen=True)
class Family:
    """The kernels of a pass: their file and name, their kind among the candidates, their tiles.

    taps    of a row that share copies; 1 for the kernels that copy each tap
    shared  bytes of shared memory of a tile
    """

    name: str
    kind: str
    tiles: Sequence[Tile]
    shared: Callable[[Tile], int]
    taps: int = 1

    def instance(self, job: Job, tile: Tile, *flags: bool) -> Kernel:
        """The kernel of a tile."""
        taps = (str(self.taps),) * (self.taps > 1)
        words = (source.ctype(job.out.dtype), *taps, *map(str, tile[:7]))
        shape = ", ".join((*words, *(str(f).lower() for f in flags)))
        return source.kernel(f"conv/{self.name}.cu", f"{self.name}<{shape}>")


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(
    family: Family, job: Job, back: bool, pixels: int, phases: int, least: int, most: int
) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data.

    pixels  rows of the product, of each of `phases`
    least   steps of a part of the depth
    """
    g, size = job.geometry, int(job.out.dtype.itemsize)
    x = pack.images(job, job.first, g.y if back else g.x, job.place())
    weights = pack.weights(job, x.padded, back, job.place(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    rows = (g.c if back else g.k) // g.groups
    moved = size * (job.first.layout.numel + job.result.layout.numel)

    def cuts() -> Iterator[Candidate]:
        for tile in family.tiles:
            step = tile.deep // size
            steps = g.r * cdiv(x.padded, step) if family.taps > 1 else cdiv(x.padded * g.taps, step)
            tiles = (cdiv(rows, tile.bn), cdiv(pixels, tile.bm))
            # The phases of a strided pass have different depths: they are not cut.
            limit = job.gpu.sms if phases == 1 else 0
            for cut in joined(tiles, phases * g.groups, steps, least, limit):
                depth = cdiv(cut.each * step * family.taps, phases)
                busy = max(work(job, tile, cut.blocks, depth), moved / job.gpu.bandwidth)
                time = job.cost + packing.cost + job.gpu.launch + busy + joining(tile, cut)
                build = functools.partial(_windows, family, packing, tile, cut, phases)
                yield candidate(f"{family.kind} ", job, tile, cut, time, build)

    return cheapest(cuts(), most)


def _windows(family: Family, packing: pack.Packing, tile: Tile, cut: Cut, phases: int) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not x.size
    made = family.instance(job, tile, back, cut.splits > 1, rounded)
    parts, scratch = memory(job, tile, cut, packing.buffers)
    problem = g.problem(
        x.images, job.result.images, back=back, splits=cut.splits, each=cut.each, tiles=cut.tiles,
        padded=x.padded, wide=_vectors(job, back, phases),
    )  # fmt: skip
    args = (x.pointer, weights.pointer, job.bias, job.result.pointer, *parts, problem)
    grid = (cut.count * cut.splits, phases, g.groups)
    step = Step(made, grid, (tile.threads,), args, family.shared(tile))
    return job.plan(*packing.steps(), step, scratch=scratch)


def _vectors(job: Job, back: bool, phases: int) -> bool:
    """True if the results are stored by vectors: of pixels, or of channels that are innermost."""
    g = job.geometry
    if job.result.images.strides[1] != 1:
        return wide(job, phases)
    return (g.c if back else g.k) // g.groups % pack.vector(job) == 0


# ---- backward to the weight --------------------------------------------------------------------
def gradients(
    family: Family, job: Job, depth: int, across: Callable[[int, int], int], most: int
) -> list[Candidate]:
    """Candidates of the backward pass to the weight.

    depth   pixels over which the product sums
    across  tiles along taps and channels, of the padded channels and a tile's columns
    """
    g, size = job.geometry, int(job.out.dtype.itemsize)
    dy = pack.images(job, job.first, g.y, job.place())
    x = pack.images(job, job.second, g.x, job.place(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    moved = size * (job.first.layout.numel + job.second.layout.numel)

    def cuts() -> Iterator[Candidate]:
        for row in family.tiles:
            # As many bytes of both types: half as many pixels of float32.
            tile = row._replace(deep=row.deep * 2 // size)
            tiles = (cdiv(g.k // g.groups, tile.bm), across(x.padded, tile.bn))
            rated = tile._replace(bn=family.taps * tile.bn)
            for cut in separate(tiles, g.groups, cdiv(depth, tile.deep), 4, 8 * job.gpu.sms):
                busy = work(job, rated, cut.blocks, cut.each * tile.deep)
                time = job.cost + packing.cost + 2 * job.gpu.launch
                time += max(busy, moved / job.gpu.bandwidth)
                time += 8 * cut.splits * g.k * g.taps * x.padded / job.gpu.bandwidth
                build = functools.partial(_gradients, family, packing, tile, cut)
                yield candidate(f"{family.kind} ", job, tile, cut, time, build)

    return cheapest(cuts(), most)


def _gradients(family: Family, packing: pack.Packing, tile: Tile, cut: Cut) -> Plan:
    job, (dy, x) = packing.job, packing.images
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not (x.size and dy.size)
    made = family.instance(job, tile, rounded)
    buffers = packing.buffers
    parts, size = job.place(len(buffers)), g.k * g.taps * x.padded
    problem = g.problem(
        x.images, dy.images, splits=cut.splits, each=cut.each * tile.deep, tiles=cut.tiles,
        padded=x.padded, target_group=dy.padded,
    )  # fmt: skip
    grid = (cut.count * cut.splits, 1, g.groups)
    threads = tile.bm // tile.wm * (family.taps * tile.bn // tile.wn) * 32
    shared = family.shared(tile) * int(job.out.dtype.itemsize)
    step = Step(made, grid, (threads,), (x.pointer, dy.pointer, parts, problem), shared)
    last = added(job, parts, size, cut.splits, (g.c // g.groups, g.taps, x.padded))
    scratch = (*buffers, Buffer((cut.splits * size,), torch.float32))
    return job.plan(*packing.steps(), step, last, scratch=scratch)
