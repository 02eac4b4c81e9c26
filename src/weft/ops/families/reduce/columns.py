"""The candidates of reductions along dimensions that are not neighbours in memory."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Buffer, Pointer
from weft.ops.core.target import Target
from weft.ops.families.reduce import model, plans
from weft.ops.families.reduce.model import BLOCK, LINE, SECTOR, moving, parts_of, power, seconds
from weft.ops.families.reduce.plans import ReductionJob
from weft.ops.families.reduce.reduction import Reduction
from weft.ops.families.reduce.rows import of_lines, of_rows
from weft.ops.families.reduce.views import MOST_DIMS, ReductionView, Walks, remaining_dims


class _ColumnGrid(NamedTuple):
    """The work of blocks and threads: each thread takes `rows` rows, and `beside` loads of each.

    loaded   bytes of a load
    fetched  bytes of memory that it takes; more where neighbours are not wanted
    """

    tiles: int
    parts: int
    deep: int
    rows: int
    beside: int
    loaded: int
    fetched: int

    def time(self, gpu: Target, moved: float) -> float:
        """Modelled seconds to reduce so many bytes."""
        blocks, rows = self.tiles * self.parts, max(1, cdiv(self.rows, self.parts))
        turns = plans.turns(self.beside * self.loaded, rows)
        resident = gpu.threads_per_sm // BLOCK
        waves = cdiv(blocks, resident * gpu.sms)
        # Threads of a column join their states in rounds, and blocks of an SM wait for each other.
        joins = self.beside * (self.deep - 1).bit_length() * model.JOIN_TIME
        joining = joins * min(resident, cdiv(blocks, gpu.sms))
        busy = max(
            moving(gpu, moved, blocks, min(turns, rows) * self.beside * self.fetched),
            (cdiv(rows, turns) * model.LOAD_LATENCY + joining) * waves,
        )
        if self.parts > 1:
            busy += (
                model.LAST_BLOCK_TIME
                + cdiv(self.parts, self.deep) * self.beside * model.STATE_LOAD_TIME
                + joins
            )
        return seconds(gpu, busy, self.parts > 1)


def of_columns(job: ReductionJob) -> list[Candidate]:
    """Candidates for columns of [outer, n, inner], in vectors where rows are whole vectors."""
    view, out, gpu, size = job.view, job.out, job.request.target, job.request.first.itemsize
    strides = (view.inner, view.outer_stride, view.row_stride)
    vector = _vector(size, out, view.n, job.aligned, strides)
    moved = view.outer * view.inner * (view.n * size + job.out.dtype.itemsize)
    found: list[Candidate] = []
    for beside, least in itertools.product(_beside(vector * size), (LINE, SECTOR)):
        width = _width(gpu, view, vector, beside, size, least)
        tiles = view.outer * cdiv(view.inner // vector, width * beside)
        name = f"{width} x {vector} columns"
        again = any(c.name.startswith(name + _more(beside)) for c in found)
        # Several loads where there are columns for one, or a width that another line has given.
        if again or (beside > 1 and view.inner < width * beside * vector // 2):
            continue
        deep = BLOCK // width
        if beside > 1 and deep > 1:  # threads would join several columns after each other
            continue
        # Memory needs whole lines.
        short = moved > gpu.l2 and width * vector * size < LINE
        slow = model.SHORT_LINE_FACTOR if short else 1.0
        wanted = _blocks(gpu, moved)
        for parts in parts_of(tiles, cdiv(view.n, deep), gpu, least=4, wanted=wanted):
            loaded = vector * size
            shape = _ColumnGrid(tiles, parts, deep, cdiv(view.n, deep), beside, loaded, loaded)
            time = shape.time(gpu, moved * slow)
            why = f"{tiles * parts} blocks read and write {moved:,} bytes"
            build = functools.partial(plans.reduced, job, vector, width, parts, None, beside)
            found.append(Candidate(name + _more(beside, parts), time, why, build))
    return found


def of_strides(
    op: Reduction, request: Request, remaining: Sequence[int], dims: Sequence[int], out: Buffer
) -> list[Candidate]:
    """Candidates that read any strides."""
    x = request.first
    if not op.one:
        dims = sorted(dims, key=lambda d: -x.strides[d])
    walks = _walks(request, remaining, dims)
    if walks is None:
        return []
    reduced = walks.reduced
    job = ReductionJob(
        op, request, ReductionView(1, walks.n, walks.rows), out, Pointer(0), x.aligned
    )
    if walks.along and len(reduced.sizes) == 1 and reduced.strides[0][0] == 1:
        lines = ReductionView(walks.rows, walks.n, 1, row_stride=1)
        return of_rows(replace(job, view=lines), walks)
    found = _of_walks(job, walks)
    if walks.along:
        found += of_lines(job, walks)
    if (
        walks.along and 1 < walks.n <= model.THREAD_ELEMENTS < walks.rows
    ):  # or a thread has all elements of a row
        found += _of_walks(job, replace(walks, along=False))
    return found


def _of_walks(job: ReductionJob, walks: Walks) -> list[Candidate]:
    x, gpu, along, out = job.request.first, job.request.target, walks.along, job.out
    outside, reduced, n, rows = walks.remaining, walks.reduced, walks.n, walks.rows
    # Neighbours of a vector are in the last remaining dimension, and whole in the others.
    steps = (*outside.strides[0][:-1], *reduced.strides[0])
    wanted = outside.strides[1] if outside.strides[1][-1] == 1 else ()
    whole = (outside.sizes[-1], *steps, *wanted[:-1])
    near = not along and outside.strides[0][-1] == 1
    vector = _vector(x.itemsize, out, n, x.aligned, whole) if near else 1
    apart = min(abs(reduced.strides[0][-1]), abs(outside.strides[0][-1]) or LINE)
    # A sector is 32 bytes.
    fetched = min(SECTOR, x.itemsize * max(1, apart))
    moved = x.numel * fetched + rows * out.dtype.itemsize
    found = []
    for beside in (1,) if along else _beside(vector * x.itemsize):
        width = _strided_width(gpu, n, cdiv(rows // vector, beside), along)
        tiles, deep = cdiv(rows // vector, width * beside), BLOCK // width
        if beside > 1 and (deep > 1 or tiles < 2 * gpu.sms):
            continue
        for parts in parts_of(tiles, cdiv(n, deep), gpu, least=4, wanted=_blocks(gpu, moved)):
            loaded = vector * x.itemsize
            shape = _ColumnGrid(
                tiles, parts, deep, 2 * cdiv(n, deep), beside, loaded, vector * fetched
            )
            addressing = rows // vector * model.ADDRESS_INSTRUCTIONS / (gpu.fp32 / 2)
            time = max(shape.time(gpu, moved), model.START_TIME + addressing)
            name = f"strided{' along' if along else ''}, {width} columns"
            name += (f" x {vector}" if vector > 1 else "") + _more(beside, parts)
            why = f"{tiles * parts} blocks read {x.numel:,} elements with their strides"
            build = functools.partial(plans.reduced, job, vector, width, parts, walks, beside)
            found.append(Candidate(name, time, why, build))
    return found


def of_folded(job: ReductionJob) -> list[Candidate]:
    """Candidates for rows without gaps that are no whole vectors, until several are together."""
    view, gpu, size = job.view, job.request.target, job.request.first.itemsize
    vector = 16 // size
    fold = vector // math.gcd(view.inner, vector)
    width = view.inner * fold // vector
    dense = view.outer == 1 and view.row_stride == view.inner and view.inner_result == 1
    # Threads that join the parts of a column: a single one would wait for each part.
    share = BLOCK // view.inner
    if not dense or fold == 1 or job.aligned < 16 or share < 2 or view.n < fold:
        return []
    whole, deep = view.n // fold, BLOCK // width
    moved = view.inner * (view.n * size + job.out.dtype.itemsize)
    found = []
    for parts in parts_of(1, cdiv(whole, deep), gpu, least=4):
        parts = min(parts, gpu.sms * (4 if share >= 8 else 1))
        turns = cdiv(whole, deep * parts * model.LOADS_IN_FLIGHT) * model.LOAD_LATENCY
        time = seconds(gpu, max(moved / gpu.bandwidth, turns), parts > 1)
        name = f"{fold} rows folded" + (f", {parts} blocks" if parts > 1 else "")
        why = f"{parts} blocks read {moved:,} bytes in whole vectors"
        build = functools.partial(plans.folded, job, vector, fold, width, parts)
        found.append(Candidate(name, time, why, build))
    return found


# ---- shared parts ------------------------------------------------------------------------------
def _vector(size: int, out: Buffer, n: int, aligned: int, whole: Sequence[int]) -> int:
    """Elements of a vector: all of `whole` are multiples of it."""
    vector = 16 // size
    while vector > 1 and (
        any(s % vector for s in whole)
        or aligned % (vector * size)
        # Where most of the bytes are results, a thread writes at most a sector.
        or (vector * out.dtype.itemsize > SECTOR and out.dtype.itemsize > n * size)
    ):
        vector //= 2
    return vector


def _beside(loaded: int) -> tuple[int, ...]:
    """Options for the loads of a row by a thread: one, or several short ones."""
    more = min(model.MOST_LOADS, model.ROW_BYTES // loaded)
    return (1, more // 2, more) if more > 2 else (1, 2) if more == 2 else (1,)


def _width(
    gpu: Target, view: ReductionView, vector: int, beside: int, size: int, least: int
) -> int:
    """Groups of columns that threads of a block have beside each other."""
    groups = cdiv(view.inner, vector * beside)
    width = min(groups, BLOCK)
    # Fewer columns per block give more threads to each, and more blocks; but neighbours that a
    # block loads should be `least` bytes, and more threads than elements have no work.
    while (
        (width + 1) // 2 * vector * size >= least
        and view.outer * cdiv(groups, width) < 2 * gpu.sms
        and model.LOADS_IN_FLIGHT * (BLOCK // width) < view.n
    ):
        width = cdiv(width, 2)
    return width


def _strided_width(gpu: Target, n: int, groups: int, along: bool) -> int:
    width = min(BLOCK, power(groups))
    least = 1 if along else min(32, width)  # neighbours in memory for a warp
    while width > least and (
        BLOCK // width < min(n, 32 if along else 1)
        or (cdiv(groups, width) < 2 * gpu.sms and model.LOADS_IN_FLIGHT * (BLOCK // width) < n)
    ):
        width //= 2
    return width


def _blocks(gpu: Target, moved: float) -> tuple[int, ...]:
    """Options for blocks of an SM: memory needs more than the L2 cache."""
    return (4, 8) if moved > gpu.l2 else (4,)


def _more(beside: int, parts: int = 1) -> str:
    return (f", {beside} each" if beside > 1 else "") + (f", {parts} blocks" if parts > 1 else "")


def _walks(request: Request, remaining: Sequence[int], dims: Sequence[int]) -> Walks | None:
    """The dimensions of a strided tensor; None if the kernels cannot count them."""
    x = request.first
    reduced = merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    outside = remaining_dims(x, remaining)
    along = abs(reduced.strides[0][-1]) < abs(outside.strides[0][-1])
    walks = Walks(outside, reduced, along or math.prod(outside.sizes) == 1)
    if max(walks.n, walks.rows) >= 1 << 31:
        return None
    return walks if max(len(reduced.sizes), len(outside.sizes)) <= MOST_DIMS else None
