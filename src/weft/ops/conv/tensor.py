"""Plans convolutions on tensor cores: float16, bfloat16, and float32 by tf32."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.conv import pack
from weft.ops.conv.implicit import PARTS, ROOM, SPLITS, added, wide
from weft.ops.conv.job import Job
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Plan, Step


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


TILES = (
    Tile(128, 256, 128, 64, 64, 3, 1, 0.36),
    Tile(128, 128, 128, 64, 64, 3, 2, 0.37),
    Tile(128, 64, 128, 64, 32, 3, 3, 0.34),
    Tile(64, 128, 128, 32, 64, 3, 3, 0.36),
    Tile(64, 64, 128, 32, 32, 3, 4, 0.30),
    Tile(128, 32, 64, 32, 32, 4, 4, 0.22),
    Tile(32, 32, 64, 16, 16, 4, 8, 0.08),
)
"""Pixels and channels of the forward pass and of the backward pass to the data."""
WEIGHT_TILES = (
    Tile(128, 256, 64, 64, 64, 3, 1, 0.24),
    Tile(128, 128, 64, 64, 64, 3, 2, 0.23),
    Tile(64, 128, 64, 32, 64, 3, 3, 0.18),
    Tile(64, 64, 64, 32, 32, 3, 4, 0.14),
    Tile(32, 64, 32, 16, 32, 3, 6, 0.08),
)
"""Filters, and taps and channels, of the backward pass to the weight."""


def work(job: Job, tile: Tile, blocks: int, depth: int) -> float:
    """Seconds of the SM with the most blocks; `depth` in elements."""
    gpu = job.gpu
    most = cdiv(blocks, gpu.sms)
    busy = min(1.0, min(most, tile.resident) * tile.threads / 256)
    rate = gpu.tf32 * (2 if job.out.dtype.itemsize == 2 else 1) / gpu.sms * tile.reach * busy
    return most * 2 * tile.bm * tile.bn * depth / rate + cdiv(most, tile.resident) * 4e-6


def _ctype(job: Job) -> str:
    return source.ctype(job.out.dtype)


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(job: Job, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g, gpu = job.geometry, job.gpu
    x = pack.images(job, job.first, g.y if back else g.x, job.place())
    weights = pack.weights(job, x.padded, back, job.place(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    rows = (g.c if back else g.k) // g.groups
    phases = g.stride[0] * g.stride[1] if back else 1
    height, width = (cdiv(g.h, g.stride[0]), cdiv(g.w, g.stride[1])) if back else (g.p, g.q)
    pixels, depth = g.n * height * width, x.padded * g.taps
    moved = job.out.dtype.itemsize * (job.first.layout.numel + job.result.layout.numel)
    before = job.cost + packing.cost
    candidates = []
    for tile in TILES:
        tiles = (cdiv(rows, tile.bn), cdiv(pixels, tile.bm))
        count = tiles[0] * tiles[1] * phases * g.groups
        step = tile.deep // job.out.dtype.itemsize
        for splits in SPLITS:
            each = cdiv(cdiv(depth, step), splits)
            if splits > 1 and (
                phases > 1 or each < 4 or cdiv(cdiv(depth, step), each) != splits
                or count > min(COUNTERS, gpu.sms)
            ):  # fmt: skip
                continue
            busy = work(job, tile, count * splits, cdiv(each * step, phases))
            time = before + gpu.launch + max(busy, moved / gpu.bandwidth)
            time += 2e-6 + splits * 2e-11 * 4 * tile.bm * tile.bn if splits > 1 else 0
            name = f"tensor {tile.bm} x {tile.bn}" + (f", depth in {splits}" if splits > 1 else "")
            why = f"{count * splits} blocks for {gpu.sms} SMs"
            build = functools.partial(_windows, packing, tile, tiles, phases, splits, each)
            candidates.append(Candidate(name, time, why, build))
    return sorted(candidates, key=lambda c: c.cost)[:most]


def _windows(
    packing: pack.Packing, tile: Tile, tiles: tuple[int, int], phases: int, splits: int, each: int
) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not x.size
    flags = (str(f).lower() for f in (back, splits > 1, rounded))
    shape = ", ".join((_ctype(job), *map(str, tile[:7]), *flags))
    kernel = source.kernel("conv/tensor.cu", f"tensor<{shape}>")
    scratch = packing.buffers
    parts: tuple[Argument, ...] = (None, None)
    count = tiles[0] * tiles[1]
    if splits > 1:
        parts = (job.place(len(scratch)), Counters())
        size = g.groups * phases * count * splits * tile.bm * tile.bn
        scratch = (*scratch, Buffer((size,), torch.float32))
    problem = g.problem(
        x.images, job.result.images, back=back, splits=splits, each=each, tiles=tiles,
        padded=x.padded, wide=_wide(job, back, phases),
    )  # fmt: skip
    args = (x.pointer, weights.pointer, job.bias, job.result.pointer, *parts, problem)
    grid = (count * splits, phases, g.groups)
    shared = tile.stages * (tile.bm + tile.bn) * tile.deep
    step = Step(kernel, grid, (tile.threads,), args, shared)
    return job.plan(*packing.steps(), step, scratch=scratch)


def _wide(job: Job, back: bool, phases: int) -> bool:
    """True if the results are stored by vectors: of pixels, or of channels that are innermost."""
    g, strides = job.geometry, job.result.images.strides
    if strides[1] != 1:
        return wide(job, phases)
    channels = (g.c if back else g.k) // g.groups
    return channels % pack.vector(job) == 0


# ---- backward to the weight --------------------------------------------------------------------
def gradients(job: Job, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu = job.geometry, job.gpu
    if g.taps > ROOM:
        return []
    dy = pack.images(job, job.first, g.y, job.place())
    x = pack.images(job, job.second, g.x, job.place(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    rows, columns = g.k // g.groups, g.taps * x.padded
    depth, size = g.n * g.p * g.q, g.k * columns
    moved = job.out.dtype.itemsize * (job.first.layout.numel + job.second.layout.numel)
    before = job.cost + packing.cost
    candidates = []
    for row in WEIGHT_TILES:
        # As many bytes of both types: half as many pixels of float32.
        tile = row._replace(deep=row.deep * 2 // int(job.out.dtype.itemsize))
        tiles = (cdiv(rows, tile.bm), cdiv(columns, tile.bn))
        count = tiles[0] * tiles[1] * g.groups
        for splits in PARTS:
            each = cdiv(cdiv(depth, splits), tile.deep) * tile.deep
            if splits > 1 and (
                each < 4 * tile.deep or cdiv(depth, each) != splits or count * splits > 8 * gpu.sms
            ):
                continue
            busy = work(job, tile, count * splits, each)
            time = before + 2 * gpu.launch + max(busy, moved / gpu.bandwidth)
            time += 8 * splits * size / gpu.bandwidth
            name = f"tensor {tile.bm} x {tile.bn}" + (f", depth in {splits}" if splits > 1 else "")
            why = f"{count * splits} blocks for {gpu.sms} SMs"
            build = functools.partial(_gradients, packing, tile, tiles, splits, each)
            candidates.append(Candidate(name, time, why, build))
    return sorted(candidates, key=lambda c: c.cost)[:most]


def _gradients(
    packing: pack.Packing, tile: Tile, tiles: tuple[int, int], splits: int, each: int
) -> Plan:
    job, (dy, x) = packing.job, packing.images
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not (x.size and dy.size)
    shape = ", ".join((_ctype(job), *map(str, tile[:7]), str(rounded).lower()))
    kernel = source.kernel("conv/tensor_weight.cu", f"tensor_weight<{shape}>")
    buffers = packing.buffers
    parts, size = job.place(len(buffers)), g.k * g.taps * x.padded
    problem = g.problem(
        x.images, dy.images, splits=splits, each=each, tiles=tiles, padded=x.padded,
        target_group=dy.padded,
    )  # fmt: skip
    grid = (tiles[0] * tiles[1] * splits, 1, g.groups)
    shared = tile.stages * tile.deep * (tile.bm + tile.bn + 16) * job.out.dtype.itemsize
    step = Step(kernel, grid, (tile.threads,), (x.pointer, dy.pointer, parts, problem), shared)
    last = added(job, parts, size, splits, (g.c // g.groups, g.taps, x.padded))
    scratch = (*buffers, Buffer((splits * size,), torch.float32))
    return job.plan(*packing.steps(), step, last, scratch=scratch)
