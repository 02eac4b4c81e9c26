"""Plan the forward pass and the backward pass to the data by boxes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Map, Plan, Step
from weft.ops.families.conv import pack
from weft.ops.families.conv.geometry import Geometry
from weft.ops.families.conv.implicit import INDEX
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.conv.split import cheapest
from weft.ops.families.conv.tma import model
from weft.ops.families.conv.tma.boxes import CHUNK, Boxes, Directions, TileBox
from weft.ops.families.conv.tma.model import Load, Rings, WarpgroupShape
from weft.ops.families.conv.tma.wide_windows import widened
from weft.ops.families.matmul.pipelined_model import CLUSTERS

CAPABILITY = (9, 0)
SWIZZLE_128, L2_128 = 3, 2
"""Numbers of a swizzle of 128 bytes and of fetches of 128 bytes in a tensor map."""
KINDS = {
    torch.float16: next(t for t in TYPES if t.name == "f16"),
    torch.bfloat16: next(t for t in TYPES if t.name == "bf16"),
}


@dataclass(frozen=True)
class WindowOperands:
    """The tensors of a pass as the kernel reads them.

    prepare  makes the launches that bring them into this order; this compiles their kernels
    cost     seconds of these launches
    """

    job: ConvJob
    directions: Directions
    x: pack.Packed
    weights: pack.Packed
    prepare: Callable[[], tuple[Step, ...]]
    buffers: tuple[Buffer, ...]
    cost: float

    @property
    def chunks(self) -> int:
        return cdiv(self.x.padded, CHUNK)

    @property
    def rows(self) -> int:
        """Channels of the target."""
        g = self.directions.geometry
        return g.c if self.directions.back else g.k


def _packed(job: ConvJob, back: bool) -> WindowOperands:
    g = job.geometry
    x = pack.images(job, job.first, g.y if back else g.x, job.scratch_at())
    # Weights are [K][tap][C] in both passes.
    each = pack.vector(job)
    weights = pack.weights(job, cdiv(g.c, each) * each, False, job.scratch_at(x.size > 0))
    packing = pack.Packing(job, (x,), weights)
    directions = Directions(g, back)
    return WindowOperands(job, directions, x, weights, packing.steps, packing.buffers, packing.cost)


def _widened(job: ConvJob) -> WindowOperands | None:
    """The operands of a forward pass of few channels."""
    made = widened(job)
    if made is None:
        return None
    x, filters = made.images(job.scratch_at()), made.filters(job.scratch_at(1))

    def prepare() -> tuple[Step, ...]:
        return (made.widen(job.first, x, job.second, filters),)

    buffers = (made.buffer(x), made.buffer(filters))
    directions = Directions(made.geometry, False)
    return WindowOperands(job, directions, x, filters, prepare, buffers, made.cost)


def windows(job: ConvJob, back: bool, most: int = 4, most_split: int = 2) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    g, gpu = job.geometry, job.gpu
    if gpu.capability != CAPABILITY or job.out.dtype not in KINDS or g.groups > 1:
        return []
    if job.result.layout.numel >= INDEX:
        return []
    if not back:
        g, view = job.thinned(job.first)
        job = replace(job, geometry=g, first=view)
    ways = [_packed(job, back), None if back else _widened(job)]
    found = []
    for splits, count in ((model.SPLITS[:1], most), (model.SPLITS[1:], most_split)):
        found += cheapest((c for way in ways if way for c in _candidates(way, splits)), count)
    return found


def _candidates(way: WindowOperands, every: tuple[int, ...]) -> Iterator[Candidate]:
    """Candidates for each number of blocks of a cluster."""
    job, directions, gpu = way.job, way.directions, way.job.gpu
    if not directions.fits():
        return
    moved = 2 * (way.x.size or job.first.layout.numel) + 2 * job.result.layout.numel
    phases = len(directions.phases)
    load = Load(
        way.chunks * directions.planes / phases,
        way.chunks * sum(phase.taps for phase in directions.phases) / phases,
    )
    for shape in model.SHAPES:
        tiles_c = cdiv(way.rows, model.ROWS * shape.channels)
        for tile in directions.tiles(shape.widest * shape.positions):
            w, h, n = directions.works(tile)
            works = tiles_c * w * h * n * phases
            for splits in every:
                one = shape._replace(splits=splits)
                width = one.width(tile.positions)
                # Blocks that would have no SM of their own, or no source channels, are no help.
                most = min(gpu.sms * CLUSTERS[splits] // works, way.chunks) if splits > 1 else 1
                if splits > most or width > shape.widest:
                    continue
                part = Load(load.planes / splits, load.taps / splits)
                rings = model.rings(one, tile, width, part, gpu)
                if rings is None:
                    continue
                busy = model.seconds(one, tile, width, works * splits, part, gpu)
                cost = job.cost + way.cost + gpu.launch + max(busy, moved / gpu.bandwidth)
                name = (
                    f"boxes of {tile.w} x {tile.h} x {tile.n}, {model.ROWS * shape.channels} "
                    f"channels by {shape.resident}"
                )
                name += f", source in {splits}" if splits > 1 else ""
                why = f"{works} tiles for {gpu.sms} SMs, {rings.planes} planes"
                build = functools.partial(_plan, way, one, tile, width, rings)
                yield Candidate(name, cost, why, build)


def _kernel(
    job: ConvJob, back: bool, shape: WarpgroupShape, width: int, rings: Rings, last: bool
) -> Kernel:
    words = (*shape[:2], width, rings.planes, rings.stages, shape.resident, shape.splits)
    return source.kernel("conv/tma.cu", job.kernel("tma", *words, back, last), **Boxes.define())


def image_map(
    x: pack.Packed, shape: tuple[int, int, int, int], dtype: torch.dtype,
    box: tuple[int, int, int], steps: tuple[int, int],
) -> Map:  # fmt: skip
    """The map of images (n, c, h, w) as (c, w, h, n): copies of 64 channels of a box of pixels."""
    n, _, h, w = shape
    sn, _, sh, sw = x.images.strides
    # A dimension of one element may have any stride.
    column = sw if w > 1 else x.padded
    row = sh if h > 1 else w * column
    image = sn if n > 1 else h * row
    request = MapRequest(
        KINDS[dtype], 0, (x.padded, w, h, n), (2 * column, 2 * row, 2 * image),
        (1, *steps, 1), (CHUNK, *box), swizzle=SWIZZLE_128, l2=L2_128,
    )  # fmt: skip
    return Map(x.pointer, request)


def weight_map(weights: pack.Packed, g: Geometry, dtype: torch.dtype, rows: int) -> Map:
    """The map of weights [k][tap][c] as (c, tap, k): copies of 64 channels, a tap, `rows` of k."""
    request = MapRequest(
        KINDS[dtype], 0, (weights.padded, g.taps, g.k),
        (2 * weights.padded, 2 * weights.padded * g.taps), (1, 1, 1), (CHUNK, 1, rows),
        swizzle=SWIZZLE_128, l2=L2_128,
    )  # fmt: skip
    return Map(weights.pointer, request)


def _plan(
    way: WindowOperands, shape: WarpgroupShape, tile: TileBox, width: int, rings: Rings
) -> Plan:
    job, directions, g = way.job, way.directions, way.directions.geometry
    back, gpu, dtype = directions.back, job.gpu, job.out.dtype
    source_shape, target = (g.y, g.x) if back else (g.x, g.y)
    strides = job.result.images.strides
    last = strides[1] == 1 and target[1] % pack.vector(job) == 0
    tiles_c = cdiv(way.rows, model.ROWS * shape.channels)
    w, h, n = directions.works(tile)
    works = tiles_c * w * h * n * len(directions.phases)
    steps = (directions.w[0].step, directions.h[0].step)
    args = (
        image_map(way.x, source_shape, dtype, (*directions.box(tile), tile.n), steps),
        weight_map(way.weights, g, dtype, CHUNK if back else model.ROWS * shape.channels),
        *job.epilogue,
        job.result.pointer,
        directions.problem(tile, tiles_c, width * shape.positions, way.chunks, target, strides),
    )
    kernel = _kernel(job, back, shape, width, rings, last)
    # A block for an SM has no more neighbours than the rounds need: an idle SM leaves others power.
    slots = gpu.sms * shape.resident
    blocks = min(works, slots) if shape.resident > 1 else cdiv(works, cdiv(works, slots))
    blocks = works * shape.splits if shape.splits > 1 else blocks
    cluster = (shape.splits,) if shape.splits > 1 else None
    step = Step(kernel, (blocks,), (shape.threads,), args, rings.shared, cluster, early=True)
    return job.plan(*way.prepare(), step, scratch=way.buffers)
