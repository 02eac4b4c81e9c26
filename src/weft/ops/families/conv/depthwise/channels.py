"""Plan depthwise convolutions of images whose channels are innermost."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Plan, Step
from weft.ops.families.conv.geometry import Geometry
from weft.ops.families.conv.implicit import INDEX, parted
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.model import DEPTHWISE_LAST

EACH = 4
"""Channels of a thread."""
MOST_TAPS, MOST_COLUMNS = 49, 9
"""Taps of a filter, in all and in a row."""
SUMS = 100
"""Sums of a thread of the backward pass to the weight."""
STRIPS = ((7, 1), (4, 1), (2, 1), (7, 2), (4, 2), (8, 1))
"""Columns and rows of results of a thread."""
UP_STRIPS = (8, 4, 2)
"""Columns of a thread of the backward pass to the data with stride 2."""
WEIGHT_STRIPS = (7, 4)
"""Columns of dy of a step of the backward pass to the weight."""
LANES, THREADS = 32, 256
"""Threads of a block along the channels, at most, and in all."""


@dataclass(frozen=True)
class DepthwiseLast(Struct):
    """The problem of a launch: see depthwise_last.cu. Strides are in elements."""

    batch: Int
    channels: Int
    source_h: Int
    source_w: Int
    target_h: Int
    target_w: Int
    pad_h: Int
    pad_w: Int
    each: Annotated[Int, "strips of a part of the positions"]
    source_image: LongLong
    source_row: LongLong
    source_column: LongLong
    target_image: LongLong
    target_row: LongLong
    target_column: LongLong


def applies(job: ConvJob, source: Tensor, target: Tensor) -> bool:
    """True if the kernels take this convolution of images, from a source to a target."""
    g = job.geometry
    one = g.groups == g.c == g.k and g.c % EACH == 0 and g.dilation == (1, 1)
    small = 1 < g.taps <= MOST_TAPS and g.s <= MOST_COLUMNS
    strides = g.stride[0] == g.stride[1] and g.stride[0] in (1, 2)
    pads = g.pad[0] < g.r and g.pad[1] < g.s
    indexed = max(g.n * g.c * g.h * g.w, g.n * g.k * g.p * g.q) <= INDEX
    filters = job.second.layout.contiguous or target is not job.result
    return (
        one
        and small
        and strides
        and pads
        and indexed
        and filters
        and not job.before
        and all(_last(t) for t in (source, target))
    )


def _last(x: Tensor) -> bool:
    """True if channels are innermost, in whole vectors."""
    n, c, h, w = x.images.strides
    size = x.layout.itemsize
    return c == 1 and all(s % EACH == 0 for s in (n, h, w)) and x.images.aligned >= EACH * size


def _lanes(channels: int, each: int) -> int:
    """Lanes along the channels: a divisor of their vectors."""
    vectors = channels // each
    return next(n for n in range(min(LANES, vectors), 0, -1) if vectors % n == 0)


class Strip(NamedTuple):
    """Results of a thread."""

    columns: int
    rows: int


class Grid(NamedTuple):
    """Threads of a launch: lanes along the channels, groups of them along the strips."""

    lanes: int
    groups: int
    blocks: tuple[int, int]

    @property
    def threads(self) -> int:
        return self.lanes * self.groups


def _grid(channels: int, each: int, strips: int) -> Grid:
    lanes = _lanes(channels, each)
    groups = THREADS // lanes
    return Grid(lanes, groups, (cdiv(strips, groups), channels // (lanes * each)))


def _problem(g: Geometry, source: Tensor, target: Tensor, each: int = 0) -> bytes:
    sn, _, sh, sw = source.images.strides
    tn, _, th, tw = target.images.strides
    return DepthwiseLast(g.n, g.c, g.h, g.w, g.p, g.q, *g.pad, each, sn, sh, sw, tn, th, tw).pack()


def _time(job: ConvJob, grid: Grid, reads: int, products: int) -> float:
    """Modelled seconds; a thread reads so many vectors and makes so many products."""
    gpu, m = job.gpu, DEPTHWISE_LAST
    tensors = (job.first, job.second, job.result)
    moved = sum(t.layout.numel * t.layout.itemsize for t in tensors)
    blocks = grid.blocks[0] * grid.blocks[1]
    # Lanes make a product in a cycle; a vector that is read costs some for each channel.
    cycles = products + m.read * reads
    threads = blocks * grid.threads
    resident = min(m.resident, cdiv(threads, gpu.sms))
    rate = min(128.0, resident / m.wait)
    busy = cdiv(blocks, gpu.sms) * grid.threads * cycles / (rate * m.clock)
    return job.cost + gpu.launch + max(busy, moved / (gpu.bandwidth * m.reach)) + m.start


# ---- forward, and backward to the data ---------------------------------------------------------
def windows(job: ConvJob, back: bool) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    if not applies(job, job.first, job.result):
        return []
    g = job.geometry
    return list(_up(job) if back and g.stride[0] == 2 else _strips(job, back))


def _strips(job: ConvJob, back: bool) -> Iterator[Candidate]:
    g = job.geometry
    if back:  # the same pass from dy to dx, with the taps reversed
        g = turned(g)
    step = g.stride[0]
    for columns, rows in STRIPS:
        if _wasteful(columns, g.q) or (rows > 1 and (g.p < rows or g.stride[0] > 1)):
            continue
        strip = Strip(columns, rows)
        grid = _grid(g.c, EACH, g.n * cdiv(g.p, rows) * cdiv(g.q, columns))
        reads = ((rows - 1) * step + g.r) * ((columns - 1) * step + g.s)
        time = _time(job, grid, reads, columns * rows * g.taps * EACH)
        build = functools.partial(_windows, job, g, back, strip, grid)
        why = f"{grid.blocks[0] * grid.blocks[1]} blocks for {job.gpu.sms} SMs"
        yield Candidate(f"depthwise {columns} x {rows}, channels last", time, why, build)


def _wasteful(columns: int, width: int) -> bool:
    """True if half of the columns of a strip or more would have no result."""
    return columns > 2 and cdiv(width, columns) * columns >= 2 * width


def turned(g: Geometry) -> Geometry:
    """The convolution from dy to dx with stride 1, whose taps are in reverse."""
    return Geometry(
        g.n, g.c, g.p, g.q, g.c, g.r, g.s, g.h, g.w, g.groups, (1, 1),
        (g.r - 1 - g.pad[0], g.s - 1 - g.pad[1]), (1, 1),
    )  # fmt: skip


def _windows(job: ConvJob, g: Geometry, back: bool, strip: Strip, grid: Grid) -> Plan:
    words = (source.ctype(job.out.dtype), g.r, g.s, g.stride[1], *strip, EACH, grid.lanes, back)
    name = source.template("depthwise_last", *words)
    problem = _problem(g, job.first, job.result)
    args = (job.first.pointer, job.second.pointer, job.bias, job.result.pointer, problem)
    return job.plan(_step(name, grid, args))


def _step(name: str, grid: Grid, args: tuple[object, ...]) -> Step:
    kernel = source.kernel("conv/depthwise_last.cu", name, **DepthwiseLast.define())
    return Step(kernel, grid.blocks, (grid.threads,), args, early=True)  # type: ignore[arg-type]


def _up(job: ConvJob) -> Iterator[Candidate]:
    """From dy to dx with stride 2."""
    g = job.geometry
    for columns in UP_STRIPS:
        if _wasteful(columns, g.w):
            continue
        grid = _grid(g.c, EACH, g.n * g.h * cdiv(g.w, columns))
        reads = cdiv(g.r, 2) * ((columns + g.s) // 2 + 1)
        products = cdiv(columns * g.taps * EACH, 4)
        time = _time(job, grid, reads, products)
        build = functools.partial(_up_plan, job, columns, grid)
        yield Candidate(f"depthwise {columns}, channels last", time, "stride 2", build)


def _up_plan(job: ConvJob, columns: int, grid: Grid) -> Plan:
    g = job.geometry
    words = (source.ctype(job.out.dtype), g.r, g.s, g.pad[1], columns, EACH, grid.lanes)
    name = source.template("depthwise_last_up", *words)
    swapped = Geometry(
        g.n, g.c, g.p, g.q, g.k, g.r, g.s, g.h, g.w, g.groups, g.stride, g.pad, g.dilation
    )
    problem = _problem(swapped, job.first, job.result)
    args = (job.first.pointer, job.second.pointer, job.result.pointer, problem)
    return job.plan(_step(name, grid, args))


# ---- backward to the weight --------------------------------------------------------------------
def gradients(job: ConvJob) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    g, gpu, m = job.geometry, job.gpu, DEPTHWISE_LAST
    if not applies(job, job.second, job.first):
        return []
    each = EACH if EACH * g.taps <= SUMS else 2
    found = []
    for columns in WEIGHT_STRIPS:
        if _wasteful(columns, g.q):
            continue
        strips = g.n * g.p * cdiv(g.q, columns)
        whole = _grid(g.c, each, strips)
        parts = max(1, min(whole.blocks[0], cdiv(m.weight_blocks * gpu.sms, whole.blocks[1])))
        own = cdiv(cdiv(strips, parts), whole.groups) * whole.groups
        grid = whole._replace(blocks=(cdiv(strips, own), whole.blocks[1]))
        rounds = own // whole.groups
        reads = rounds * (columns + g.r * ((columns - 1) * g.stride[1] + g.s))
        time = _time(job, grid, reads, rounds * columns * g.taps * each)
        time += gpu.launch * (grid.blocks[0] > 1)
        time += 8 * grid.blocks[0] * g.c * g.taps / gpu.bandwidth
        build = functools.partial(_gradients, job, columns, each, own, grid)
        why = f"{grid.blocks[0]} parts"
        found.append(Candidate(f"depthwise {columns}, channels last", time, why, build))
    return found


def _gradients(job: ConvJob, columns: int, each: int, own: int, grid: Grid) -> Plan:
    g, ctype = job.geometry, source.ctype(job.out.dtype)
    out, steps, scratch = parted(job, grid.blocks[0])
    made = "float" if grid.blocks[0] > 1 else ctype
    words = (ctype, made, g.r, g.s, g.stride[1], columns, each, grid.lanes)
    name = source.template("depthwise_last_weight", *words)
    problem = _problem(g, job.second, job.first, own)
    args = (job.second.pointer, job.first.pointer, out, problem)
    return job.plan(_step(name, grid, args), *steps, scratch=scratch)
