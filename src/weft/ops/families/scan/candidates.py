"""Candidates and plans of scans: running sums, products and maxima."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import dense_strides, memory_order, merged
from weft.ops.core.plan import COUNTERS, Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import after_copy, contiguous
from weft.ops.families.scan import model
from weft.ops.families.scan.model import BLOCK, COLUMN_ELEMENTS, LATENCY, TILES_PER_GROUP

SHARED_WORDS = COUNTERS // 2 - 1
"""64-bit words that fit in the shared counters, after the first."""


@dataclass(frozen=True)
class ScanOp:
    """One operation.

    operation  the struct of operations.cuh
    wide       True if integer results have 64 bits
    none       the identity element, with which exclusive scans begin
    """

    name: str
    operation: str
    wide: bool
    none: Callable[[torch.dtype], float]
    torch: Callable[..., Any]


def _lowest(dtype: torch.dtype) -> float:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


ROWS = {
    row.name: row
    for row in (
        ScanOp("sum", "Sum", True, lambda dtype: 0, torch.cumsum),
        ScanOp("prod", "Product", True, lambda dtype: 1, torch.cumprod),
        ScanOp("max", "Max", False, _lowest, lambda x, dim: torch.cummax(x, dim)[0]),
    )
}
WIDENED = (torch.int16, torch.int8, torch.uint8, torch.bool)
"""Dtypes that only wide operations support; they are computed in 64 bits."""


# ---- shapes and dtypes -------------------------------------------------------------------------
def _dtype(row: ScanOp, dtype: torch.dtype) -> torch.dtype:
    return torch.int64 if row.wide and not dtype.is_floating_point else dtype


def output(row: ScanOp, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Buffer:
    """The result: dense, in the memory order of x where x is dense, else row-major."""
    order = memory_order(Layout(dtype, tuple(shape), tuple(strides), 16))
    dense = dense_strides(shape, order) if order else None
    return Buffer(tuple(shape), _dtype(row, dtype), strides=dense)


@dataclass(frozen=True)
class ScanView:
    """A tensor as [outer, n, inner], scanned along n; `stride` and `step` are those of x."""

    outer: int
    n: int
    inner: int
    stride: int
    step: int


def _view(x: Layout, out: Buffer, dim: int) -> ScanView | None:
    """The view for the kernels; None if the tensor must be copied first."""
    order = sorted(range(len(x.shape)), key=lambda d: (-out.steps[d], d))
    # A scan of single elements is a copy in memory order.
    if x.shape[dim] == 1 and memory_order(x):
        return ScanView(1, 1, x.numel, 0, 0)
    at = order.index(dim)
    before, behind = (
        merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
        for dims in (order[:at], order[at + 1 :])
    )
    if len(before.sizes) > 1 or len(behind.sizes) > 1:
        return None
    outer, n, inner = before.sizes[0], x.shape[dim], behind.sizes[0]
    stride, step = before.strides[0][0], x.strides[dim]
    straight = behind.strides[0][0] == 1 if inner > 1 else step == 1
    return ScanView(outer, n, inner, stride, step) if straight else None


@dataclass(frozen=True)
class ScanJob:
    """A scan of a view: the values shared by all candidates.

    x       the address that the kernels read, `aligned` to this many bytes
    before  launches that precede it; `scratch` has their buffers
    """

    row: ScanOp
    view: ScanView
    dtype: torch.dtype
    out: Buffer
    flags: tuple[bool, bool]
    gpu: Target
    x: Pointer
    aligned: int
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()

    @property
    def wide(self) -> int:
        """Elements in a vector of 16 bytes; results may take 32."""
        return 16 // max(int(self.dtype.itemsize), int(self.out.dtype.itemsize) // 2)

    @property
    def computed(self) -> torch.dtype:
        """The dtype of the arithmetic."""
        return torch.float32 if self.dtype in (torch.float16, torch.bfloat16) else self.out.dtype

    @property
    def moved(self) -> int:
        """Bytes that are read and written."""
        v = self.view
        return v.outer * v.n * v.inner * int(self.dtype.itemsize + self.out.dtype.itemsize)

    def kernel(self, name: str, vector: int, *rest: int | bool) -> Any:
        types = (source.ctype(d) for d in (self.dtype, self.computed, self.out.dtype))
        numbers = (str(v).lower() for v in (vector, *reversed(self.flags), *rest))
        words = ", ".join((*types, self.row.operation, *numbers))
        return source.kernel(
            "scan/scan.cu",
            f"{name}<{words}>",
            GROUP=str(TILES_PER_GROUP),
            DEEP=str(COLUMN_ELEMENTS),
        )

    def time(self, blocks: int, threads: int, registers: int) -> float:
        """Modelled seconds of a launch that moves everything once."""
        return model.launch_time(self.gpu, self.moved, blocks, threads, registers)

    def plan(self, *steps: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        return Plan((*self.before, *steps), (self.out,), (*self.scratch, *scratch))


# ---- candidates --------------------------------------------------------------------------------
def candidates(
    row: ScanOp, dim: int, flags: tuple[bool, bool], request: Request
) -> list[Candidate]:
    """The candidates for a scan; `flags` are (exclusive, reverse)."""
    x, gpu = request.first, request.target
    out = output(row, x.shape, x.strides, x.dtype)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    dim = dim % max(len(x.shape), 1)
    if not x.shape:
        x = x._replace(shape=(1,), strides=(1,))
    view = _view(x, out._replace(shape=x.shape), dim)
    if view is not None:
        return _of_job(ScanJob(row, view, x.dtype, out, flags, gpu, Pointer(0), x.aligned))
    copy = contiguous(x, Pointer(0), Pointer(2), gpu)
    dense = Layout(x.dtype, x.shape, Buffer(x.shape, x.dtype).steps, 16)
    view = _view(dense, out, dim)
    assert view is not None
    scratch = (Buffer(x.shape, x.dtype),)
    job = ScanJob(row, view, x.dtype, out, flags, gpu, Pointer(2), 16, copy.steps, scratch)
    return after_copy(copy, _of_job(job))


def _of_job(job: ScanJob) -> list[Candidate]:
    return _of_rows(job) if job.view.inner == 1 else _of_columns(job)


def _of_rows(job: ScanJob) -> list[Candidate]:
    view, gpu, wide = job.view, job.gpu, job.wide
    even = job.aligned == 16 and (view.stride % wide == 0 or view.outer == 1)
    chunks = cdiv(view.n, wide) + (not even)  # an unaligned row may span one more vector
    words = cdiv(16, 4) + cdiv(job.computed.itemsize, 4)  # registers that a vector needs
    candidates = []
    for threads, vectors in _groups(chunks, min(8, model.ROW_ELEMENTS // wide)):
        block = _block(threads)
        blocks = cdiv(view.outer, block // threads)
        name = f"{threads} threads per row, {vectors} vectors each"
        build = functools.partial(_rows, job, threads, vectors)
        time = job.time(blocks, block, min(32 + vectors * words, 64 * cdiv(words, 5)))
        candidates.append(Candidate(name, time, f"{blocks} blocks, {view.n} in a row", build))
    if chunks <= 2 * BLOCK:
        return candidates
    for vectors in (2, 4, 8, 12):
        tiles = cdiv(chunks, BLOCK * vectors)
        blocks = view.outer * tiles
        # Enough blocks to fill the GPU: smaller tiles only lengthen the look-back.
        if vectors < 12 and blocks > 64 * gpu.sms:
            continue
        hops = cdiv(tiles, TILES_PER_GROUP)
        time = (
            max(job.time(blocks, BLOCK, 40 + vectors * words), hops * model.LOOK_BACK_TIME)
            + model.LOOK_BACK_TIME
        )
        time += model.CLEAR_TIME if _words(job, tiles) > SHARED_WORDS else 0
        why = f"{tiles} tiles in a row, {hops} groups"
        build = functools.partial(_tiles, job, vectors, tiles)
        candidates.append(Candidate(f"tiles of {BLOCK} x {vectors} vectors", time, why, build))
    return candidates


def _groups(chunks: int, most: int) -> list[tuple[int, int]]:
    """(threads per row, vectors per thread) options, with at most `most` vectors."""
    if chunks <= 64:
        threads = _power(cdiv(chunks, 2))
        return [(threads, _power(cdiv(chunks, threads)))]
    groups = [(32, _power(cdiv(chunks, 32)))] if chunks <= 32 * most else []
    for vectors in (h for h in (2, 4, 8) if h <= most):
        threads = max(64, _power(cdiv(chunks, vectors)))
        if threads <= 512:
            groups.append((threads, vectors))
    return groups


def _block(threads: int) -> int:
    """Threads per block; rows of at most one warp share a block."""
    return 128 if threads <= 32 else threads


def _power(least: int) -> int:
    """The least power of two that is at least this number."""
    return 1 << max(0, least - 1).bit_length()


def _of_columns(job: ScanJob) -> list[Candidate]:
    view, gpu = job.view, job.gpu
    vector = job.wide
    while vector > 1 and (
        view.inner % vector
        or view.stride % vector
        or view.step % vector
        or job.aligned % (vector * job.dtype.itemsize)
    ):
        vector //= 2
    candidates = []
    columns = view.outer * view.inner // vector
    if view.n <= model.MEDIUM_COLUMN:
        size = _power(view.n) * job.dtype.itemsize
        width = (
            vector
            if view.n <= model.SHORT_COLUMN
            else min(vector, max(1, model.COLUMN_BYTES // size))
        )
        groups = view.outer * view.inner // width
        blocks = cdiv(groups, BLOCK)
        build = functools.partial(_short_columns, job, width, groups)
        why = f"{blocks} blocks, a thread scans {width} columns of {view.n}"
        time = job.time(
            blocks, BLOCK, 48 + (0 if view.n <= model.SHORT_COLUMN else width * size // 4)
        )
        candidates.append(Candidate(f"short columns by {width}", time, why, build))
    if view.n <= model.SHORT_COLUMN:
        return candidates
    for width in (4, 8, 32) if columns > 8 else (_power(columns),):
        deep = COLUMN_ELEMENTS * 32 // width  # elements along n of a warp
        warps = min(8, _power(cdiv(view.n, deep)))
        blocks = cdiv(columns, width * (8 // warps))
        registers = 48 + COLUMN_ELEMENTS * 4 + 3 * vector * job.computed.itemsize // 4
        turns = cdiv(view.n, warps * deep)
        name = f"{width} x {vector} columns, {warps} warps along n"
        time = job.time(blocks, BLOCK, registers) + turns * LATENCY / 2
        build = functools.partial(_columns, job, vector, width, warps, blocks, 1)
        candidates.append(Candidate(name, time, f"{blocks} blocks, {turns} turns", build))
        parts = min(turns, cdiv(4 * gpu.sms, blocks))
        if parts > 1:
            time = job.time(blocks * parts, BLOCK, registers) + cdiv(turns, parts) * LATENCY / 2
            read = view.outer * view.n * view.inner * job.dtype.itemsize
            time += (
                gpu.launch
                + LATENCY
                + (model.L2_SHARE if read < gpu.l2 else 1.0) * read / gpu.bandwidth
            )
            build = functools.partial(_columns, job, vector, width, warps, blocks, parts)
            why = f"{blocks} x {parts} blocks; x is read twice"
            candidates.append(Candidate(f"{name}, {parts} parts", time, why, build))
    return candidates


# ---- plans -------------------------------------------------------------------------------------
def _rows(job: ScanJob, threads: int, vectors: int) -> Plan:
    view, block = job.view, _block(threads)
    kernel = job.kernel("rows", job.wide, threads, vectors)
    args = (job.x, Pointer(1), view.outer, view.n, view.stride)
    return job.plan(Step(kernel, (cdiv(view.outer, block // threads),), (block,), args))


def _tiles(job: ScanJob, vectors: int, tiles: int) -> Plan:
    view, groups = job.view, cdiv(tiles, TILES_PER_GROUP)
    kernel = job.kernel("tiles", job.wide, BLOCK, vectors)
    # Small states fit the shared counters, which need no clearing launch.
    words = _words(job, tiles)
    states: tuple[Argument, Argument] = (Pointer(2 + len(job.scratch)), None)
    scratch: tuple[Buffer, ...] = (Buffer((words,), torch.int64, zeroed=True),)
    if words <= SHARED_WORDS:
        states, scratch = (None, Counters()), ()
    args = (job.x, Pointer(1), *states, view.n, view.stride, tiles, groups)
    step = Step(kernel, (view.outer * tiles,), (BLOCK,), args)
    return job.plan(step, scratch=scratch)


def _words(job: ScanJob, tiles: int) -> int:
    """64-bit words for the published states of tiles and groups."""
    return job.view.outer * (tiles + cdiv(tiles, TILES_PER_GROUP)) * int(job.computed.itemsize) // 4


def _short_columns(job: ScanJob, vector: int, columns: int) -> Plan:
    view = job.view
    kernel = job.kernel("short_columns", vector, _power(view.n))
    args = (job.x, Pointer(1), columns, view.n, view.inner, view.stride, view.step)
    return job.plan(Step(kernel, (cdiv(columns, BLOCK),), (BLOCK,), args))


def _columns(job: ScanJob, vector: int, width: int, warps: int, blocks: int, parts: int) -> Plan:
    view = job.view
    grid, partials = (blocks * parts,), Pointer(2 + len(job.scratch))
    scan = job.kernel("columns", vector, width, False)
    args = (view.outer, view.n, view.inner, view.stride, view.step, warps, parts,
            cdiv(view.n, parts))  # fmt: skip
    if parts == 1:
        return job.plan(Step(scan, grid, (BLOCK,), (job.x, Pointer(1), None, *args)))
    fold = job.kernel("columns", vector, width, True)
    states = Buffer((view.outer * parts * view.inner,), job.computed)
    steps = (Step(k, grid, (BLOCK,), (job.x, Pointer(1), partials, *args)) for k in (fold, scan))
    return job.plan(*steps, scratch=(states,))
