"""Plans the passes on tensor cores that read packed tensors, for the kernels of tensor and taps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.conv import pack
from weft.ops.families.conv.cut import (
    Cut,
    candidate,
    cheapest,
    joined,
    joining,
    memory,
    separate,
    shared,
)
from weft.ops.families.conv.implicit import INDEX, added, wide
from weft.ops.families.conv.job import Job


class Tile(NamedTuple):
    """A tile of the product: the parts computed by a block and a warp.

    deep      bytes along the depth for a stage (windows), or pixels (gradients of weights)
    resident  blocks that an SM holds
    reach     the fraction of the tensor cores' rate in the loop over the depth
    share     the same for blocks that have shares of all tiles; 0 if there are none
    """

    bm: int
    bn: int
    deep: int
    wm: int
    wn: int
    stages: int
    resident: int
    reach: float
    share: float = 0.0

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    def rated(self, cut: Cut) -> Tile:
        """The tile with the rate that it has in a launch."""
        return self._replace(reach=self.share) if cut.shares else self

    def residents(self, gpu: Target, shared: int) -> int:
        """Blocks with shares that an SM holds, with so many bytes of shared memory each."""
        return min(self.resident, gpu.shared_per_sm // (shared + 1024)) if self.share else 0


TABLES = 8192
"""Bytes of shared memory for the places of pixels in the gradients of weights, at most."""


def work(job: Job, tile: Tile, blocks: int, depth: int, full: int = 256) -> float:
    """Seconds of the SM with the most blocks; `depth` in elements, `full` threads keep it busy."""
    gpu = job.gpu
    most = cdiv(blocks, gpu.sms)
    busy = min(1.0, min(most, tile.resident) * tile.threads / full)
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
    family: Family, job: Job, back: bool, pixels: int, phases: int, most: int
) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data.

    pixels  rows of the product, of each of `phases`
    """
    g, size = job.geometry, int(job.out.dtype.itemsize)
    x = pack.images(job, job.first, g.y if back else g.x, job.place())
    weights = pack.weights(job, x.padded, back, job.place(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    if max(x.size, job.first.layout.numel) > INDEX * pack.vector(job):
        return []  # the kernels number 16-byte vectors of the images
    rows = (g.c if back else g.k) // g.groups
    moved = size * (job.first.layout.numel + job.result.layout.numel)

    # The part of the taps that the phase with the most has.
    largest = cdiv(g.r, g.stride[0]) * cdiv(g.s, g.stride[1])
    part = (largest, g.taps) if phases > 1 else (1, 1)

    def cuts(tile: Tile, steps: int) -> Iterator[Cut]:
        tiles, copies = (cdiv(rows, tile.bn), cdiv(pixels, tile.bm)), phases * g.groups
        if family.taps > 1:
            yield from joined(tiles, copies, steps, 2, job.gpu.sms)
            return
        yield Cut(tiles, copies, 1, 0)
        if phases == 1:  # the phases of a strided pass have different depths
            resident = tile.residents(job.gpu, family.shared(tile) + writing(tile, size))
            yield from shared(tiles, copies, steps, resident, job.gpu.sms)

    def candidates() -> Iterator[Candidate]:
        for tile in family.tiles:
            step = tile.deep // size
            depth = g.r * cdiv(x.padded, step) if family.taps > 1 else cdiv(x.padded * g.taps, step)
            for cut in cuts(tile, depth):
                sums = cdiv((cut.each or depth) * step * family.taps * part[0], part[1])
                if phases > 1 and cut.blocks > job.gpu.sms:  # an SM has blocks of several phases
                    sums = cdiv(depth * step, phases)
                busy = max(work(job, tile.rated(cut), cut.blocks, sums), moved / job.gpu.bandwidth)
                time = job.cost + packing.cost + job.gpu.launch + busy + joining(tile, cut)
                build = functools.partial(_windows, family, packing, tile, cut, phases)
                yield candidate(f"{family.kind} ", job, tile, cut, time, build)

    return cheapest(candidates(), most)


def writing(tile: Tile, size: int) -> int:
    """Bytes of shared memory in which the warps turn results of `size` bytes (tensor.cuh)."""
    warp = 8 * tile.wm + max(8 * (tile.wm + 8) * size, 32 * (tile.wn + 8))
    return tile.threads // 32 * warp


def _windows(family: Family, packing: pack.Packing, tile: Tile, cut: Cut, phases: int) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not x.size
    made = family.instance(job, tile, back, cut.splits > 1 or cut.shares > 0, rounded)
    parts, scratch = memory(job, tile, cut, packing.buffers)
    problem = g.problem(
        x.images, job.result.images, back=back, splits=cut.splits, each=cut.each, tiles=cut.tiles,
        padded=x.padded, wide=stores_vectors(job, back),
    )  # fmt: skip
    args = (x.pointer, weights.pointer, job.bias, job.result.pointer, *parts, problem)
    grid = (cut.grid, phases, g.groups)
    room = family.shared(tile) + (writing(tile, int(job.out.dtype.itemsize)) if cut.shares else 0)
    step = Step(made, grid, (tile.threads,), args, room)
    return job.plan(*packing.steps(), step, scratch=scratch)


def stores_vectors(job: Job, back: bool) -> bool:
    """True if the results are stored by vectors: of pixels, or of channels that are innermost."""
    g = job.geometry
    if job.result.images.strides[1] != 1:
        return wide(job, back)
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

    def candidates() -> Iterator[Candidate]:
        for row in family.tiles:
            # As many bytes of both types: half as many pixels of float32.
            tile = row._replace(deep=row.deep * 2 // size)
            tiles, steps = (
                (cdiv(g.k // g.groups, tile.bm), across(x.padded, tile.bn)),
                cdiv(depth, tile.deep),
            )
            whole = tile._replace(bn=family.taps * tile.bn)
            resident = tile.residents(job.gpu, family.shared(tile) * size + TABLES)
            cuts = (
                *separate(tiles, g.groups, steps, 4, 8 * job.gpu.sms),
                *shared(tiles, g.groups, steps, resident, job.gpu.sms),
            )
            for cut in cuts:
                busy = work(job, whole.rated(cut), cut.blocks, cut.each * tile.deep)
                time = job.cost + packing.cost + 2 * job.gpu.launch + joining(whole, cut)
                time += max(busy, moved / job.gpu.bandwidth)
                time += 8 * cut.splits * g.k * g.taps * x.padded / job.gpu.bandwidth
                build = functools.partial(_gradients, family, packing, tile, cut)
                yield candidate(f"{family.kind} ", job, tile, cut, time, build)

    return cheapest(candidates(), most)


def _gradients(family: Family, packing: pack.Packing, tile: Tile, cut: Cut) -> Plan:
    job, (dy, x) = packing.job, packing.images
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not (x.size and dy.size)
    made = family.instance(job, tile, cut.shares > 0, rounded)
    size = g.k * g.taps * x.padded
    buffers = (*packing.buffers, Buffer((cut.splits * size,), torch.float32))
    parts = job.place(len(buffers) - 1)
    rest, scratch = memory(job, tile._replace(bn=family.taps * tile.bn), cut, buffers)
    problem = g.problem(
        x.images, dy.images, splits=cut.splits, each=cut.each, tiles=cut.tiles, padded=x.padded,
        target_group=dy.padded,
    )  # fmt: skip
    threads = tile.bm // tile.wm * (family.taps * tile.bn // tile.wn) * 32
    room = family.shared(tile) * int(job.out.dtype.itemsize)
    args = (x.pointer, dy.pointer, parts, *rest, problem)
    step = Step(made, (cut.grid, 1, g.groups), (threads,), args, room)
    last = added(job, parts, size, cut.splits, (g.c // g.groups, g.taps, x.padded))
    return job.plan(*packing.steps(), step, last, scratch=scratch)
