"""Plan depthwise convolutions of channels-last images on Hopper, by tiles that TMA copies."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.device.tensor_map_limits import MAX_BOX
from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.plan import Map, Plan, Step
from weft.ops.families.conv.depthwise import channels
from weft.ops.families.conv.geometry import Geometry
from weft.ops.families.conv.implicit import parted
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.model import DEPTHWISE_TILES

CAPABILITY = (9, 0)
KINDS = {
    kind: next(t for t in TYPES if t.name == name)
    for kind, name in ((torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16"))
}
L2_128 = 2
"""Number of fetches of 128 bytes in a tensor map."""
EACH, THREADS, STAGES = 4, 256, 2
SLOT = 128
"""Bytes that boxes begin at multiples of."""
STRIPS = ((7, 1), (7, 2), (4, 1), (4, 2), (8, 1))
"""Columns and rows of results of a thread."""
MOST_CHANNELS = 72
"""Channels of a tile."""
SUMS = 48
"""Sums of a thread of the backward pass to the weight that has four channels."""
MOST = 6
"""Candidates of a pass."""


@dataclass(frozen=True)
class DepthwiseTiles(Struct):
    """The problem of a launch: see depthwise_tiles.cu. Strides are in elements."""

    batch: Int
    channels: Int
    chunks: Annotated[Int, "tiles along the channels"]
    tiles_w: Int
    tiles_h: Int
    tile_w: Annotated[Int, "positions of a tile"]
    tile_h: Int
    box_w: Annotated[Int, "pixels of a row that a tile reads"]
    box_bytes: Int
    box_slot: Annotated[Int, "bytes that these have in shared memory"]
    dy_bytes: Annotated[Int, "the same of dy, in the backward pass to the weight"]
    dy_slot: Int
    pad_h: Int
    pad_w: Int
    target_h: Int
    target_w: Int
    target_image: LongLong
    target_row: LongLong
    target_column: LongLong


class DepthwiseTile(NamedTuple):
    """A tile: channels, positions, and those of a thread."""

    channels: int
    w: int
    h: int
    columns: int
    rows: int

    def box(self, g: Geometry) -> tuple[int, int]:
        """Pixels of a row, and rows, that a tile reads."""
        return (self.w - 1) * g.stride[1] + g.s, (self.h - 1) * g.stride[0] + g.r

    def slot(self, box: tuple[int, int], size: int) -> int:
        return cdiv(box[0] * box[1] * self.channels * size, SLOT) * SLOT

    def tiles(self, g: Geometry) -> tuple[int, int]:
        return cdiv(g.q, self.w), cdiv(g.p, self.h)

    def strips(self) -> int:
        return self.w // self.columns * (self.h // self.rows)


def applies(job: ConvJob, read: Tensor, target: Tensor) -> bool:
    """True if the kernels take this convolution, from a tensor to a target."""
    g, size = job.geometry, int(job.out.dtype.itemsize)
    vectors = all(
        t.images.aligned == 16 and all(s * size % 16 == 0 for s in t.images.strides if s != 1)
        for t in (read, target)
    )
    hopper = job.gpu.capability == CAPABILITY and job.out.dtype in KINDS
    return hopper and vectors and g.c * size % 16 == 0 and channels.applies(job, read, target)


def _chunks(count: int, size: int) -> list[int]:
    """Channels of a tile: the two largest divisors of all that are whole sectors of 32 bytes.

    Without these, the largest of whole vectors: shared memory and the L2 cache have conflicts.
    """
    each = 16 // size
    found = [n for n in range(MOST_CHANNELS, each - 1, -1) if count % n == 0 and n % each == 0]
    return [n for n in found if n * size >= 64 and n * size % 32 == 0][:2] or found[:1]


def _shapes(g: Geometry, size: int, strips: tuple[tuple[int, int], ...]) -> Iterator[DepthwiseTile]:
    for chunk in _chunks(g.c, size):
        for columns, rows in strips:
            if rows > 1 and (g.stride[0] > 1 or g.p < rows):
                continue
            across = cdiv(g.q, columns)
            for w in sorted({across, cdiv(across, 2), cdiv(across, 4)}):
                for h in sorted({cdiv(cdiv(g.p, n), rows) * rows for n in (1, 2, 4, 7, 8, 14)}):
                    shape = DepthwiseTile(chunk, w * columns, h, columns, rows)
                    if max(shape.box(g)) <= MAX_BOX:
                        yield shape


def _map(
    x: Tensor, shape: tuple[int, int, int, int], dtype: torch.dtype, box: tuple[int, int, int]
) -> Map:
    """The map of images (n, c, h, w) as (c, w, h, n); boxes have channels, columns and rows."""
    n, c, h, w = shape
    sn, _, sh, sw = x.images.strides
    size = int(dtype.itemsize)
    column = sw if w > 1 else c
    row = sh if h > 1 else w * column
    image = sn if n > 1 else h * row
    strides = (size * column, size * row, size * image)
    return Map(
        x.pointer,
        MapRequest(KINDS[dtype], 0, (c, w, h, n), strides, (1, 1, 1, 1), (*box, 1), l2=L2_128),
    )


def _problem(g: Geometry, shape: DepthwiseTile, size: int, target: Tensor) -> DepthwiseTiles:
    box, dy = shape.box(g), (shape.w, shape.h)
    tn, _, th, tw = target.images.strides
    each = shape.channels * size
    return DepthwiseTiles(
        g.n, g.c, g.c // shape.channels, *shape.tiles(g), shape.w, shape.h, box[0],
        box[0] * box[1] * each, shape.slot(box, size), dy[0] * dy[1] * each, shape.slot(dy, size),
        *g.pad, g.p, g.q, tn, th, tw,
    )  # fmt: skip


class LaunchWork(NamedTuple):
    """The work of a launch.

    cycles   of a thread for a strip
    strips   of all threads
    blocks   of the launch, of so many threads and bytes of shared memory
    moved    bytes that tiles read
    turns    tiles of a block, one after the other
    """

    cycles: float
    strips: int
    blocks: int
    threads: int
    shared: int
    moved: float
    turns: int = 1


def _time(job: ConvJob, work: LaunchWork, registers: int) -> float:
    gpu, m = job.gpu, DEPTHWISE_TILES
    tensors = (job.first, job.second, job.result)
    least = sum(t.layout.numel * t.layout.itemsize for t in tensors)
    room = gpu.shared_per_sm // (work.shared + BLOCK_RESERVED)
    resident = max(1, min(room, 65536 // (work.threads * registers), 16))
    busy = work.cycles * work.strips / (gpu.sms * 128 * m.clock * m.busy)
    rounds = cdiv(work.blocks, gpu.sms * resident)
    idle = rounds * gpu.sms * resident / max(work.blocks, 1)
    copies = max(least / (gpu.bandwidth * m.reach), work.moved / m.l2)
    # The first copies and the last products of an SM overlap with nothing.
    alone = min(busy, copies) * idle / (rounds * work.turns)
    return job.cost + gpu.launch + max(busy * idle, copies) + alone + rounds * m.wait + m.start


def _cycles(g: Geometry, shape: DepthwiseTile, each: int) -> float:
    """Instructions of a strip: products, loads, conversions, weights and stores."""
    rows = (shape.rows - 1) * g.stride[0] + g.r
    reads = rows * ((shape.columns - 1) * g.stride[1] + g.s)
    products = shape.columns * shape.rows * g.taps * each
    return products + reads * (each + 1) + g.taps * shape.rows + shape.columns * shape.rows * 6


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data with stride 1."""
    g, size = job.geometry, int(job.out.dtype.itemsize)
    if not applies(job, job.first, job.result) or (back and g.stride[0] > 1):
        return []
    if back:  # the same pass from dy to dx, with the taps reversed
        g = channels.turned(g)
    found = []
    for shape in _shapes(g, size, STRIPS):
        box = shape.box(g)
        shared = shape.slot(box, size)
        lanes, (across, down) = shape.channels // EACH, shape.tiles(g)
        threads = min(THREADS // lanes, shape.strips()) * lanes
        if shared + 4 * g.taps * shape.channels > job.gpu.shared_per_block // 2 or threads < 32:
            continue
        blocks = g.n * across * down * (g.c // shape.channels)
        strips = blocks * cdiv(shape.strips() * lanes, threads) * threads
        moved = blocks * (shared + shape.w * shape.h * shape.channels * size)
        registers = 40 + 4 * (shape.columns * shape.rows + (shape.columns - 1) * g.stride[1] + g.s)
        work = LaunchWork(_cycles(g, shape, EACH), strips, blocks, threads, shared, moved)
        build = functools.partial(_windows, job, g, back, shape, blocks, threads)
        name = f"depthwise tiles of {shape.w} x {shape.h}, {shape.channels} channels, "
        name += f"{shape.columns} x {shape.rows}"
        why = f"{blocks} blocks for {job.gpu.sms} SMs"
        found.append(Candidate(name, _time(job, work, registers), why, build))
    return sorted(found, key=lambda c: c.cost)[:MOST]


def _windows(
    job: ConvJob, g: Geometry, back: bool, shape: DepthwiseTile, blocks: int, threads: int
) -> Plan:
    dtype, size = job.out.dtype, int(job.out.dtype.itemsize)
    words = (g.r, g.s, g.stride[1], shape.columns, shape.rows, shape.channels, back)
    name = source.template("depthwise_tiles", source.ctype(dtype), *words)
    box = (shape.channels, *shape.box(g))
    problem = _problem(g, shape, size, job.result)
    args = (
        _map(job.first, g.x, dtype, box), job.second.pointer, job.bias, job.result.pointer,
        problem.pack(),
    )  # fmt: skip
    kernel = source.kernel("conv/depthwise_tiles.cu", name, **DepthwiseTiles.define())
    return job.plan(Step(kernel, (blocks,), (threads,), args, problem.box_slot, early=True))


# ---- backward to the weight --------------------------------------------------------------------
def gradients(job: ConvJob) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu, m, size = job.geometry, job.gpu, DEPTHWISE_TILES, int(job.out.dtype.itemsize)
    if not applies(job, job.second, job.first):
        return []
    each = EACH if EACH * g.taps <= SUMS else 2
    found, most = [], _chunks(g.c, size)[0]
    for shape in _shapes(g, size, ((7, 1), (4, 1))):
        shared = STAGES * (shape.slot(shape.box(g), size) + shape.slot((shape.w, shape.h), size))
        lanes, chunks, (across, down) = (
            shape.channels // each,
            g.c // shape.channels,
            shape.tiles(g),
        )
        threads = THREADS // lanes * lanes
        # Half of an SM, beside the sums in static shared memory.
        if shared + 32 * threads * each > gpu.shared_per_block // 2 or chunks > 65535:
            continue
        tiles = g.n * across * down
        parts = max(1, min(tiles, m.weight_blocks * gpu.sms // chunks))
        rounds = cdiv(tiles, parts)
        groups = threads // lanes
        strips = parts * chunks * rounds * cdiv(shape.strips(), groups) * threads
        moved = chunks * tiles * shared / STAGES
        cycles, blocks = _cycles(g, shape, each), parts * chunks
        work = LaunchWork(cycles, strips, blocks, threads, shared, moved, rounds)
        time = _time(job, work, 128)
        time += gpu.launch * (parts > 1) + 8 * parts * g.c * g.taps / gpu.bandwidth
        build = functools.partial(_gradients, job, shape, each, parts, threads)
        name = f"depthwise tiles of {shape.w} x {shape.h}, {shape.channels} channels, "
        name += f"{shape.columns}"
        time *= m.fewer if shape.channels < most else 1.0
        found.append(Candidate(name, time, f"{parts} parts of {rounds} tiles", build))
    return sorted(found, key=lambda c: c.cost)[:MOST]


def _gradients(job: ConvJob, shape: DepthwiseTile, each: int, parts: int, threads: int) -> Plan:
    g, dtype, size = job.geometry, job.out.dtype, int(job.out.dtype.itemsize)
    out, steps, scratch = parted(job, parts)
    ctype = source.ctype(dtype)
    words = (g.r, g.s, g.stride[1], shape.columns, each, shape.channels)
    name = source.template("depthwise_tiles_weight", ctype, "float" if parts > 1 else ctype, *words)
    problem = _problem(g, shape, size, job.first)
    args = (
        _map(job.second, g.x, dtype, (shape.channels, *shape.box(g))),
        _map(job.first, g.y, dtype, (shape.channels, shape.w, shape.h)),
        out,
        problem.pack(),
    )
    kernel = source.kernel("conv/depthwise_tiles.cu", name, **DepthwiseTiles.define())
    grid = (parts, g.c // shape.channels)
    shared = STAGES * (problem.box_slot + problem.dy_slot)
    step = Step(kernel, grid, (threads,), args, shared, early=True)
    return job.plan(step, *steps, scratch=scratch)
