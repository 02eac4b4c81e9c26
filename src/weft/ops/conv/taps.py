"""Plans convolutions on tensor cores whose taps of a row share copies to shared memory."""

from __future__ import annotations

import functools

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.conv import pack
from weft.ops.conv.implicit import PARTS, SPLITS, added, wide
from weft.ops.conv.job import Job
from weft.ops.conv.tensor import Tile, work
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Plan, Step

TILES = (
    Tile(256, 128, 64, 64, 64, 4, 1, 0.37),
    Tile(128, 128, 64, 64, 64, 3, 2, 0.36),
    Tile(256, 64, 64, 64, 32, 4, 1, 0.34),
    Tile(64, 64, 64, 32, 32, 4, 3, 0.29),
    Tile(32, 32, 64, 16, 16, 4, 6, 0.08),
)
"""Pixels and channels, of the forward pass and of the backward pass to the data."""
WEIGHT_TILES = (
    Tile(128, 64, 64, 64, 48, 4, 1, 0.31),
    Tile(64, 64, 64, 64, 48, 4, 2, 0.28),
    Tile(64, 32, 64, 32, 48, 4, 2, 0.18),
    Tile(32, 32, 64, 16, 48, 4, 3, 0.16),
)
"""Filters and channels of the backward pass to the weight; a warp has `wn` taps and channels."""
NARROWEST, WIDEST = 3, 9
"""Taps of a row."""


def applies(job: Job) -> bool:
    """True for rows of taps without gaps and stride 1, and results with contiguous pixels."""
    g, (_, c, h, w) = job.geometry, job.result.images.strides
    rows = g.stride == (1, 1) and g.dilation[1] == 1 and NARROWEST <= g.s <= WIDEST
    dense = w == 1 and h in (job.result.layout.shape[-1], 0)
    return rows and (c == 1 or dense)


def _shared(tile: Tile, taps: int) -> int:
    """Bytes of shared memory; the pixels have eight rows more, for the taps of the last."""
    return tile.stages * (tile.bm + 8 + taps * tile.bn) * tile.deep


def windows(job: Job, back: bool, most: int = 6) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    if not applies(job):
        return []
    g, gpu, size = job.geometry, job.gpu, int(job.out.dtype.itemsize)
    x = pack.images(job, job.first, g.y if back else g.x, job.place())
    weights = pack.weights(job, x.padded, back, job.place(x.size > 0))
    packing = pack.Packing(job, (x,), weights, back)
    n, rows, height, width = g.x if back else g.y
    rows //= g.groups
    pixels = n * height * (width + g.s - 1)
    moved = size * (job.first.layout.numel + job.result.layout.numel)
    candidates = []
    for tile in (t for t in TILES if _shared(t, g.s) <= gpu.shared_per_block):
        tiles = (cdiv(rows, tile.bn), cdiv(pixels, tile.bm))
        count, step = tiles[0] * tiles[1] * g.groups, tile.deep // size
        steps = g.r * cdiv(x.padded, step)
        for splits in SPLITS:
            each = cdiv(steps, splits)
            if splits > 1 and (
                each < 2 or cdiv(steps, each) != splits or count > min(COUNTERS, gpu.sms)
            ):
                continue
            busy = work(job, tile, count * splits, each * g.s * step)
            time = job.cost + packing.cost + gpu.launch + max(busy, moved / gpu.bandwidth)
            time += 2e-6 + splits * 2e-11 * 4 * tile.bm * tile.bn if splits > 1 else 0
            name = f"taps {tile.bm} x {tile.bn}" + (f", depth in {splits}" if splits > 1 else "")
            why = f"{count * splits} blocks for {gpu.sms} SMs"
            build = functools.partial(_windows, packing, tile, tiles, splits, each)
            candidates.append(Candidate(name, time, why, build))
    return sorted(candidates, key=lambda c: c.cost)[:most]


def _windows(
    packing: pack.Packing, tile: Tile, tiles: tuple[int, int], splits: int, each: int
) -> Plan:
    job, back, x, weights = packing.job, packing.back, packing.images[0], packing.weights
    assert weights is not None
    g = job.geometry
    rounded = job.out.dtype is torch.float32 and not x.size
    flags = (str(f).lower() for f in (back, splits > 1, rounded))
    shape = ", ".join((source.ctype(job.out.dtype), str(g.s), *map(str, tile[:7]), *flags))
    kernel = source.kernel("conv/taps.cu", f"taps<{shape}>")
    scratch = packing.buffers
    parts: tuple[Argument, ...] = (None, None)
    count = tiles[0] * tiles[1]
    if splits > 1:
        parts = (job.place(len(scratch)), Counters())
        size = g.groups * count * splits * tile.bm * tile.bn
        scratch = (*scratch, Buffer((size,), torch.float32))
    channels = (g.c if back else g.k) // g.groups
    vectors = (
        channels % pack.vector(job) == 0 if job.result.images.strides[1] == 1 else wide(job, 1)
    )
    problem = g.problem(
        x.images, job.result.images, back=back, splits=splits, each=each, tiles=tiles,
        padded=x.padded, wide=vectors,
    )  # fmt: skip
    args = (x.pointer, weights.pointer, job.bias, job.result.pointer, *parts, problem)
    grid = (count * splits, 1, g.groups)
    step = Step(kernel, grid, (tile.threads,), args, _shared(tile, g.s))
    return job.plan(*packing.steps(), step, scratch=scratch)


# ---- backward to the weight --------------------------------------------------------------------
def gradients(job: Job, most: int = 6) -> list[Candidate]:
    """Candidates of the backward pass to the weight, for three taps in a row."""
    g, gpu, size = job.geometry, job.gpu, int(job.out.dtype.itemsize)
    if g.stride != (1, 1) or g.dilation[1] != 1 or g.s != NARROWEST:
        return []
    dy = pack.images(job, job.first, g.y, job.place())
    x = pack.images(job, job.second, g.x, job.place(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    depth, parts_size = g.n * g.p * (g.q + g.s - 1), g.k * g.taps * x.padded
    moved = size * (job.first.layout.numel + job.second.layout.numel)
    candidates = []
    for row in WEIGHT_TILES:
        tile = row._replace(deep=row.deep * 2 // size)
        tiles = (cdiv(g.k // g.groups, tile.bm), g.r * cdiv(x.padded, tile.bn))
        count = tiles[0] * tiles[1] * g.groups
        columns = tile._replace(bn=g.s * tile.bn)
        for splits in PARTS:
            each = cdiv(cdiv(depth, splits), tile.deep) * tile.deep
            if splits > 1 and (
                each < 4 * tile.deep or cdiv(depth, each) != splits or count * splits > 8 * gpu.sms
            ):
                continue
            busy = work(job, columns, count * splits, each)
            time = job.cost + packing.cost + 2 * gpu.launch + max(busy, moved / gpu.bandwidth)
            time += 8 * splits * parts_size / gpu.bandwidth
            name = f"taps {tile.bm} x {tile.bn}" + (f", depth in {splits}" if splits > 1 else "")
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
    shape = ", ".join(
        (source.ctype(job.out.dtype), str(g.s), *map(str, tile[:7]), str(rounded).lower())
    )
    kernel = source.kernel("conv/taps_weight.cu", f"taps_weight<{shape}>")
    buffers = packing.buffers
    parts, size = job.place(len(buffers)), g.k * g.taps * x.padded
    problem = g.problem(
        x.images, dy.images, splits=splits, each=each, tiles=tiles, padded=x.padded,
        target_group=dy.padded,
    )  # fmt: skip
    grid = (tiles[0] * tiles[1] * splits, 1, g.groups)
    rows = tile.deep * (tile.bm + 8) + (tile.deep + 8) * (tile.bn + 8)
    threads = tile.bm // tile.wm * (g.s * tile.bn // tile.wn) * 32
    shared = tile.stages * rows * int(job.out.dtype.itemsize)
    step = Step(kernel, grid, (threads,), (x.pointer, dy.pointer, parts, problem), shared)
    last = added(job, parts, size, splits, (g.c // g.groups, g.taps, x.padded))
    scratch = (*buffers, Buffer((splits * size,), torch.float32))
    return job.plan(*packing.steps(), step, last, scratch=scratch)
