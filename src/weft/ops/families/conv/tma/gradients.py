"""Plan the backward pass to the weight by boxes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import torch

from weft.kernels import cdiv
from weft.kernels.structs import Int, Short, Struct, array
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.conv import pack
from weft.ops.families.conv.geometry import dense
from weft.ops.families.conv.implicit import Transpose, added
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.split import cheapest
from weft.ops.families.conv.tma import model
from weft.ops.families.conv.tma.boxes import CHUNK, ROW, SLOT, Directions, TileBox
from weft.ops.families.conv.tma.products import applies as one_tap
from weft.ops.families.conv.tma.slabs import (
    MOST_GROUPS,
    MOST_PLANES,
    MOST_SLABS,
    Grouping,
    grouping,
)
from weft.ops.families.conv.tma.wide_windows import widened
from weft.ops.families.conv.tma.windows import CAPABILITY, KINDS, image_map

DEPTH = 16
"""Positions of a product."""
WAITING = {2: 1.6, 3: 1.15, 4: 1.0}
"""Relative time of a tile by the stages of a block: with few, products wait for copies."""
ADDING = 3e-6
"""Seconds of the launch that adds parts, beside their bytes."""
FLAT = (96, 64, 128, 192, 256)
"""Positions of a tile of a row that is longer; of equal times, the first is taken."""
LARGEST = 512
"""Positions of a tile, at most."""


# ---- what the kernel takes ---------------------------------------------------------------------
@dataclass(frozen=True)
class SourcePlane(Struct):
    """A copy of pixels of x: its first pixel and channel, relative to those of the tile."""

    x: Short
    y: Short
    channel: Short


@dataclass(frozen=True)
class TapGroup(Struct):
    """The slabs of a warpgroup: see tma_weight.cu."""

    plane: Annotated[tuple[int, ...], array(Short, 2)]
    shift: Annotated[tuple[int, ...], array(Short, 2)]
    tap: Annotated[tuple[int, ...], array(Short, MOST_SLABS)]
    channel: Annotated[tuple[int, ...], array(Short, MOST_SLABS)]


@dataclass(frozen=True)
class WeightBoxes(Struct):
    """The problem of a launch: see tma_weight.cu."""

    tiles_k: Annotated[Int, "of channels of dy"]
    tiles_c: Int
    tile_channels: Annotated[Int, "of x, of a tile"]
    tiles_group: Annotated[Int, "of groups of slabs"]
    groups: Int
    tiles_w: Annotated[Int, "of positions"]
    tiles_h: Int
    tiles_n: Int
    tile_w: Int
    tile_h: Int
    tile_n: Int
    step_w: Annotated[Int, "source pixels from a position to the next"]
    step_h: Int
    steps: Annotated[Int, "of 16 positions, of a tile"]
    splits: Annotated[Int, "parts of the tiles of positions"]
    planes: Int
    dy_bytes: Annotated[Int, "of a copy, and of its place in shared memory"]
    dy_slot: Int
    x_bytes: Int
    x_slot: Int
    leading: Int
    K: Int
    C: Int
    taps: Int
    plane: Annotated[tuple[SourcePlane, ...], array(SourcePlane, MOST_PLANES)]
    group: Annotated[tuple[TapGroup, ...], array(TapGroup, MOST_GROUPS)]


# ---- candidates --------------------------------------------------------------------------------
class GradientBlock(NamedTuple):
    """The warpgroups of a block: groups beside each other, channels of dy below each other.

    splits   parts of the positions
    cluster  blocks that add their parts
    direct   the sums of a cluster are the gradient
    last     that has the channels last
    whole    the one part is the gradient, in float32
    """

    across: int
    down: int
    stages: int
    splits: int = 1
    cluster: int = 1
    direct: bool = False
    last: bool = False
    whole: bool = False

    @property
    def threads(self) -> int:
        return 128 * self.across * self.down + 32


class Stage(NamedTuple):
    """Bytes of a stage: copies of dy and of a plane of x, and their places."""

    dy: int
    dy_slot: int
    x: int
    x_slot: int
    steps: int


def _stage(tile: TileBox) -> Stage:
    rows = tile.n * tile.image if tile.n > 1 else tile.h * tile.row
    steps = cdiv(rows, DEPTH)
    read = steps * DEPTH + tile.reach
    return Stage(
        rows * ROW, cdiv(steps * DEPTH * ROW, SLOT) * SLOT, tile.plane * ROW,
        cdiv(max(tile.plane, read) * ROW, SLOT) * SLOT, steps,
    )  # fmt: skip


def gradients(job: ConvJob, most: int = 4) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu = job.geometry, job.gpu
    if gpu.capability != CAPABILITY or job.out.dtype not in KINDS or g.groups > 1:
        return []
    g, view = job.thinned(job.second)
    job = replace(job, geometry=g, second=view)
    packed = _packed(job)
    if _writes_last(job):  # no other pass has its parts in this order
        ways = [packed] if packed.plain else []
    else:  # of few channels, results have the dtype of the operands
        ways = [way for way in (packed, None if job.stored else _widened(job)) if way]
    return cheapest((c for way in ways for c in _candidates(way)), most)


def _writes_last(job: ConvJob) -> bool:
    """True if the gradient has its channels last."""
    return job.out.strides is not None


@dataclass(frozen=True)
class GradientOperands:
    """The tensors of a pass as the kernel reads them.

    prepare  makes the launches that bring them into this order; this compiles their kernels
    add      makes the launch that adds so many parts at an address
    cost     seconds of the launches before
    """

    job: ConvJob
    directions: Directions
    dy: pack.Packed
    x: pack.Packed
    prepare: Callable[[], tuple[Step, ...]]
    add: Callable[[Pointer, int], Step]
    buffers: tuple[Buffer, ...]
    cost: float

    @property
    def plain(self) -> bool:
        """True if a part without other elements is the gradient, but for the order."""
        return (
            self.directions.geometry is self.job.geometry and self.x.padded == self.job.geometry.c
        )

    @property
    def size(self) -> int:
        """Elements of a part."""
        g = self.directions.geometry
        return g.k * g.taps * self.x.padded


def _packed(job: ConvJob) -> GradientOperands:
    g = job.geometry
    dy = pack.images(job, job.first, g.y, job.scratch_at())
    x = pack.images(job, job.second, g.x, job.scratch_at(dy.size > 0))
    packing = pack.Packing(job, (dy, x))
    if one_tap(job) and all(dense(t.images.strides, g.n, g.h, g.w) for t in (dy, x)):
        pixels = g.n * g.h * g.w  # one row of all pixels
        g = replace(g, n=1, h=1, w=pixels, p=1, q=pixels)

    def add(parts: Pointer, count: int) -> Step:
        transpose = None if _writes_last(job) else Transpose(g.c, g.taps, x.padded)
        return added(job, parts, g.k * g.taps * x.padded, count, transpose)

    directions = Directions(g, False)
    return GradientOperands(
        job, directions, dy, x, packing.steps, add, packing.buffers, packing.cost
    )


def _widened(job: ConvJob) -> GradientOperands | None:
    """The operands of a pass of few channels."""
    made = widened(job)
    if made is None:
        return None
    g = job.geometry
    dy = pack.images(job, job.first, g.y, job.scratch_at())
    packing = pack.Packing(job, (dy,))
    x = made.images(job.scratch_at(dy.size > 0))

    def prepare() -> tuple[Step, ...]:
        return (*packing.steps(), made.widen(job.second, x, None, None))

    buffers = (*packing.buffers, made.buffer(x))
    cost = packing.cost + made.cost
    directions = Directions(made.geometry, False)
    return GradientOperands(job, directions, dy, x, prepare, made.narrow, buffers, cost)


def _candidates(way: GradientOperands) -> Iterator[Candidate]:
    job, directions, gpu = way.job, way.directions, way.job.gpu
    groups = grouping(directions, way.x.padded) if directions.fits() else None
    if groups is None:
        return
    moved = 2 * (job.first.layout.numel + (way.x.size or job.second.layout.numel))
    for tile in _position_tiles(directions):
        stage = _stage(tile)
        for block in _blocks(way, groups, stage, tile):
            busy = _seconds(way, groups, stage, block, tile)
            cost = job.cost + way.cost + gpu.launch + max(busy, moved / gpu.bandwidth)
            if not (block.direct or block.whole):
                parts = block.splits // block.cluster
                cost += ADDING + 8 * parts * way.size / gpu.bandwidth
            name = (
                f"boxes of {tile.w} x {tile.h} x {tile.n}, {CHUNK * block.down} x "
                f"{groups.channels} channels, positions in {block.splits} by {block.cluster}"
            )
            why = f"{block.stages} stages of {stage.steps} steps"
            build = functools.partial(_plan, way, groups, tile, stage, block)
            yield Candidate(name, cost, why, build)


def _position_tiles(directions: Directions) -> Iterator[TileBox]:
    """Tiles of whole rows: what is between them is outside of dy, so that it counts as 0."""
    wide = directions.geometry.q
    if directions.geometry.taps > 1 or wide <= min(FLAT):
        yield from (t for t in directions.tiles(LARGEST) if t.w == wide)
    else:  # one tap: there is nothing between rows
        yield from (directions.tile(w, 1, 1) for w in FLAT)


def _tiles(way: GradientOperands, groups: Grouping, block: GradientBlock) -> tuple[int, int, int]:
    """Tiles of the weights along channels of dy, channels of x, and groups of slabs."""
    g = way.directions.geometry
    across = cdiv(len(groups.groups), block.across)
    return cdiv(g.k, CHUNK * block.down), cdiv(way.x.padded, groups.channels), across


def _blocks(
    way: GradientOperands, groups: Grouping, stage: Stage, tile: TileBox
) -> Iterator[GradientBlock]:
    """The shapes of blocks whose stages fit, with parts that fill the GPU."""
    g, gpu, slabs = way.directions.geometry, way.job.gpu, groups.first + groups.second
    count, wide = len(groups.groups), slabs == MOST_SLABS
    across = min(count, 2 if wide or count in (2, 4) else 3)
    down = 2 if across == 1 and g.k > CHUNK else 1
    each = down * stage.dy_slot + len(groups.planes) * stage.x_slot
    stages = min(4, (model.block_room(gpu, 1) - SLOT) // each)
    if stages < 2:
        return
    block = GradientBlock(across, down, stages)
    tiles = _tiles(way, groups, block)
    positions = math.prod(way.directions.works(tile))
    most = max(1, min(positions, gpu.sms // math.prod(tiles)))
    for splits, cluster in sorted({(most, 1), (most // 2 * 2, 2)}):
        if splits:
            last, wide = _writes_last(way.job), way.job.stored is not None
            alone = way.plain and splits == cluster
            yield block._replace(
                splits=splits, cluster=cluster, direct=alone and not wide and tiles[2] == 1,
                last=last, whole=alone and wide and last,
            )  # fmt: skip


def _shared(way: GradientOperands, groups: Grouping, stage: Stage, block: GradientBlock) -> int:
    """Bytes of shared memory: the stages, or later the results that a cluster adds."""
    ring = block.stages * (block.down * stage.dy_slot + len(groups.planes) * stage.x_slot)
    results = block.across * block.down * CHUNK * CHUNK * (groups.first + groups.second) * 4
    rows = block.down * CHUNK // block.cluster * groups.channels * way.directions.geometry.taps * 2
    if block.cluster == 1 and not block.direct:
        return SLOT + ring
    return SLOT + max(ring, results + (rows if block.direct else 0))


def _seconds(
    way: GradientOperands, groups: Grouping, stage: Stage, block: GradientBlock, tile: TileBox
) -> float:
    """Modelled seconds of the products."""
    gpu, r = way.job.gpu, model.RATES
    slabs, consumers = groups.first + groups.second, block.across * block.down
    products = consumers * slabs * CHUNK * r.width / r.reach
    reads = consumers * (slabs + 1 + (groups.second > 0)) * 2048 / r.shared
    arrives = block.down * stage.dy + len(groups.planes) * stage.x
    one = max(stage.steps * max(products, reads), arrives / r.l2) * WAITING[block.stages] + r.step
    positions = math.prod(way.directions.works(tile))
    most = cdiv(math.prod(_tiles(way, groups, block)) * block.splits, gpu.sms)
    store = r.store[0] + r.store[1] * slabs * CHUNK
    return r.start + most * (cdiv(positions, block.splits) * one + store) / r.clock


def _plan(
    way: GradientOperands, groups: Grouping, tile: TileBox, stage: Stage, block: GradientBlock
) -> Plan:
    job, directions, g = way.job, way.directions, way.directions.geometry
    size = block.splits // block.cluster * way.size
    buffers = (*way.buffers, Buffer((size,), torch.float32))
    parts = job.result.pointer if block.whole else job.scratch_at(len(buffers) - 1)
    tiles, count = _tiles(way, groups, block), len(groups.groups)
    apart = groups.apart
    leading = stage.x_slot if apart is None else (apart[0] * tile.row + apart[1]) * ROW
    made = tuple(
        TapGroup(planes, tuple(i * tile.row + j for i, j in shifts), _four(taps), _four(channels))
        for planes, shifts, taps, channels in groups.groups
    )
    planes = tuple(SourcePlane(across, down, c) for down, across, c in groups.planes)
    step_w, step_h = directions.w[0].step, directions.h[0].step
    problem = WeightBoxes(
        tiles[0], tiles[1], groups.channels, tiles[2], count, *directions.works(tile), tile.w,
        tile.h, tile.n, step_w, step_h, stage.steps, block.splits, len(planes), stage.dy,
        stage.dy_slot, stage.x, stage.x_slot, leading, g.k, way.x.padded, g.taps,
        (*planes, *[SourcePlane(0, 0, 0)] * (MOST_PLANES - len(planes))),
        (*made, *[made[0]] * (MOST_GROUPS - count)),
    )  # fmt: skip
    dtype, rows = job.out.dtype, tile.rows if tile.n > 1 else tile.h
    maps = (
        image_map(way.dy, g.y, dtype, (tile.row, rows, tile.n), (1, 1)),
        image_map(way.x, g.x, dtype, (*directions.box(tile), tile.n), (step_w, step_h)),
    )
    form = ("LAST" if block.last else "FIRST") if block.direct else "PARTS"
    words = (groups.first, groups.second, *block[:3], block.cluster, form)
    name = source.template("tma_weight", source.ctype(dtype), *words)
    kernel = source.kernel("conv/tma_weight.cu", name, **WeightBoxes.define())
    blocks = math.prod(tiles) * block.splits
    places = (None, job.result.pointer) if block.direct else (parts, None)
    args = (*maps, *places, problem.pack())
    shared = _shared(way, groups, stage, block)
    cluster = (block.cluster,) if block.cluster > 1 else None
    step = Step(kernel, (blocks,), (block.threads,), args, shared, cluster, early=True)
    if block.direct or block.whole:
        return job.plan(*way.prepare(), step, scratch=way.buffers)
    last = way.add(parts, block.splits // block.cluster)
    return job.plan(*way.prepare(), step, last, scratch=buffers)


def _four(values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values, *[0] * (MOST_SLABS - len(values)))
