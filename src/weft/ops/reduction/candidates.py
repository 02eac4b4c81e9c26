"""Lists the candidates of reductions along rows, columns and arbitrary strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.copies import after_copy, contiguous
from weft.ops.jobs import Job, Operand, Way
from weft.ops.layouts import merged
from weft.ops.plan import COUNTERS, Buffer, Layout, Plan, Pointer, Step
from weft.ops.pointwise import ways as ways_of
from weft.ops.reduction import plans
from weft.ops.reduction.plans import BLOCK
from weft.ops.reduction.row import Row, computed, reduced_dims, result_dtype, result_shape
from weft.ops.reduction.views import MOST_DIMS, View, Walks, dense_rows, kept_dims, view_of
from weft.ops.target import Target

TURNS, ROUND = 4, 0.8e-6
"""Loads in flight per thread, and their latency in seconds."""
JOIN = 4e-6
"""Seconds of the host to allocate scratch and to pass counters."""
START = 2e-6
"""Seconds from the start of a kernel to its first results."""
SHORT = 64
"""Bytes of a row from which on several threads read it in vectors."""
NARROW = 128
"""Columns of a plane below which a block may have columns of several planes."""
NARROW_LOADS = {1: 0.2, 2: 0.4}
"""The share of the bandwidth that loads of so many bytes reach."""
LINE, SECTOR = 128, 32
"""Bytes of a cache line, and of the smallest access to memory."""


# ---- candidates --------------------------------------------------------------------------------
def candidates(row: Row, request: Request) -> list[Candidate]:
    """The candidates for a reduction."""
    x, options = request.first, request.options
    dims = reduced_dims(len(x.shape), options["dim"])
    out = Buffer(result_shape(x.shape, dims, options["keepdim"]), result_dtype(row, x.dtype))
    if math.prod(out.shape) == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    kept = [d for d in range(len(x.shape)) if d not in dims]
    n = math.prod(x.shape[d] for d in dims)
    if n == 1:
        return _of_single(row, request, kept, out)
    view = view_of(x, dims, ordered=row.one)
    if view is not None:
        ways = _of_view(row, request, view, out, Pointer(0), x.aligned, ())
        # Blocks of few columns have few threads with work: columns of several planes share one.
        narrow = 1 < view.inner < NARROW and view.outer > 1
        return [*ways, *(_of_strides(row, request, kept, dims, out) if narrow else ())]
    order = [*kept, *dims]
    turned = Layout(x.dtype, tuple(x.shape[d] for d in order), tuple(x.strides[d] for d in order),
                    x.aligned)  # fmt: skip
    copy = contiguous(turned, Pointer(0), Pointer(2), request.target)
    dense = dense_rows(x.numel // max(n, 1), n)
    ways = _of_view(row, request, dense, out, Pointer(2), 16, copy.steps)
    scratch = Buffer(turned.shape, x.dtype)
    return [*_of_strides(row, request, kept, dims, out), *after_copy(copy, ways, scratch)]


def _of_single(row: Row, request: Request, kept: Sequence[int], out: Buffer) -> list[Candidate]:
    """Candidates for one element along the reduced dimensions: an expression of it."""
    x, options = request.first, request.options
    ctype, out_ctype = source.ctype(x.dtype), source.ctype(out.dtype)
    operand = Operand(ctype, x.itemsize, tuple(x.strides[d] for d in kept), x.aligned, Pointer(0))
    less = max(0, 1 - options["correction"]) if row.name == "var" else 0
    job = Job(
        row.single, computed(row, x.dtype), tuple(x.shape[d] for d in kept), (operand,),
        out_ctype, out.dtype.itemsize, Pointer(1), (less, 0),
    )  # fmt: skip

    def built(way: Way) -> Plan:
        return Plan((way.build(),), (out,))

    return [
        Candidate(f"single, {way.name}", way.cost, way.why, functools.partial(built, way))
        for way in ways_of(job, request.target)
    ]


def _of_view(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    make = functools.partial(plans.reduced, row, request, view, out, x, before)
    if view.inner == 1 and view.row_stride == 1:
        return [
            *_of_short_rows(row, request, view, out, x, aligned, before),
            *_of_rows(request, view, make),
        ]
    return [
        *_of_columns(request, view, out, aligned, make),
        *_of_folded(row, request, view, out, x, aligned, before),
    ]


def _of_folded(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    """Candidates for rows without gaps that are no whole vectors, until several are together."""
    gpu, size = request.target, request.first.itemsize
    vector = 16 // size
    fold = vector // math.gcd(view.inner, vector)
    width = view.inner * fold // vector
    dense = view.outer == 1 and view.row_stride == view.inner and view.inner_result == 1
    # Threads that join the parts of a column: a single one would wait for each part.
    share = BLOCK // view.inner
    if not dense or fold == 1 or aligned < 16 or share < 2 or view.n < fold:
        return []
    whole, deep = view.n // fold, BLOCK // width
    moved = view.inner * (view.n * size + out.dtype.itemsize)
    ways = []
    for parts in _parts(1, cdiv(whole, deep), gpu, least=4):
        parts = min(parts, gpu.sms * (4 if share >= 8 else 1))
        turns = cdiv(whole, deep * parts * TURNS) * ROUND
        time = _time(gpu, max(moved / gpu.bandwidth, turns), parts)
        name = f"{fold} rows folded" + (f", {parts} blocks" if parts > 1 else "")
        why = f"{parts} blocks read {moved:,} bytes in whole vectors"
        build = functools.partial(
            plans.folded, row, request, view, out, x, before, vector, fold, width, parts
        )
        ways.append(Candidate(name, time, why, build))
    return ways


def _of_short_rows(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    """A candidate for rows of a few neighbours without gaps: one thread per row."""
    gpu, dtype = request.target, request.first.dtype
    size = view.n * dtype.itemsize
    if size >= SHORT or view.outer_stride != view.n:
        return []
    vector = 16 // dtype.itemsize
    while aligned % (vector * dtype.itemsize):
        vector //= 2
    # Threads read at a distance of a row: banks that they share make them wait.
    conflicts = math.gcd(size // 4, 32) if size % 4 == 0 else 1
    moved = view.outer * (size + out.dtype.itemsize)
    time = _time(gpu, max(moved / gpu.bandwidth, 0.5e-12 * view.outer * view.n * conflicts))
    why = f"{cdiv(view.outer, BLOCK)} blocks read {moved:,} bytes through shared memory"
    build = functools.partial(plans.short_rows, row, request, view, out, x, before, vector)
    return [Candidate("short rows", time, why, build)]


def _of_rows(request: Request, view: View, make: Callable[..., Plan]) -> list[Candidate]:
    gpu, dtype = request.target, request.first.dtype
    moved = view.outer * view.n * dtype.itemsize
    wide = 16 // dtype.itemsize
    chunks = cdiv(view.n, wide)
    ways = []
    for threads in _groups(chunks):
        blocks = cdiv(view.outer, BLOCK // threads)
        # A row takes whole vectors, and one more where it is not aligned.
        read = moved if chunks > 4 else view.outer * (chunks + 1) * 16
        for parts in _parts(view.outer, chunks, gpu) if threads == BLOCK else (1,):
            turns = cdiv(chunks, threads * parts * TURNS) * ROUND
            waves = cdiv(blocks * parts, 8 * gpu.sms)
            time = _time(gpu, max(read / gpu.bandwidth, turns * waves), parts)
            name = f"{threads} threads per row" + (f", {parts} blocks" if parts > 1 else "")
            why = f"{blocks * parts} blocks read {moved:,} bytes"
            ways.append(Candidate(name, time, why, functools.partial(make, wide, threads, parts)))
    return ways


def _of_columns(
    request: Request, view: View, out: Buffer, aligned: int, make: Callable[..., Plan]
) -> list[Candidate]:
    gpu, size = request.target, request.first.itemsize
    vector = 16 // size
    while vector > 1 and (
        any(s % vector for s in (view.inner, view.outer_stride, view.row_stride))
        or aligned % (vector * size)
        # Where most of the bytes are results, a thread writes at most a sector.
        or (vector * out.dtype.itemsize > SECTOR and out.dtype.itemsize > view.n * size)
    ):
        vector //= 2
    groups = view.inner // vector
    width = min(groups, BLOCK)
    # Fewer columns per block give more threads to each, and more blocks; but a row of a block
    # should be a cache line, and more threads than elements have no work.
    while (
        (width + 1) // 2 * vector * size >= LINE
        and view.outer * cdiv(groups, width) < 2 * gpu.sms
        and TURNS * (BLOCK // width) < view.n
    ):
        width = cdiv(width, 2)
    tiles = view.outer * cdiv(groups, width)
    deep = BLOCK // width
    moved = view.outer * view.inner * (view.n * size + out.dtype.itemsize)
    reading = moved / gpu.bandwidth / NARROW_LOADS.get(vector * size, 1.0)
    ways = []
    for parts in _parts(tiles, cdiv(view.n, deep), gpu, least=4):
        turns = cdiv(view.n, deep * parts * TURNS) * ROUND
        waves = cdiv(tiles * parts, 8 * gpu.sms)
        time = _time(gpu, max(reading, turns * waves), parts)
        name = f"{width} x {vector} columns" + (f", {parts} blocks" if parts > 1 else "")
        why = f"{tiles * parts} blocks read and write {moved:,} bytes"
        ways.append(Candidate(name, time, why, functools.partial(make, vector, width, parts)))
    return ways


def _of_strides(
    row: Row, request: Request, kept: Sequence[int], dims: Sequence[int], out: Buffer
) -> list[Candidate]:
    """Candidates that read any strides; the address of each element costs divisions."""
    x, gpu = request.first, request.target
    if not row.one:
        dims = sorted(dims, key=lambda d: -x.strides[d])
    reduced = merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    outside = kept_dims(x, kept)
    n, rows = math.prod(reduced.sizes), math.prod(outside.sizes)
    if max(n, rows) >= 1 << 31 or max(len(reduced.sizes), len(outside.sizes)) > MOST_DIMS:
        return []
    along = abs(reduced.strides[0][-1]) < abs(outside.strides[0][-1]) or rows == 1
    apart = reduced.strides[0][-1] if along else outside.strides[0][-1]
    moved = x.numel * min(32, x.itemsize * max(1, abs(apart)))  # a sector is 32 bytes
    width = min(BLOCK, _power(rows))
    least = 1 if along else min(32, width)  # neighbours in memory for a warp
    while width > least and (
        BLOCK // width < min(n, 32 if along else 1)
        or (cdiv(rows, width) < 2 * gpu.sms and TURNS * (BLOCK // width) < n)
    ):
        width //= 2
    tiles, deep = cdiv(rows, width), BLOCK // width
    ways = []
    view, walks = View(1, n, rows, 0, 0, 0, 0), Walks(outside, reduced, along)
    for parts in _parts(tiles, cdiv(n, deep), gpu, least=4):
        turns = cdiv(n, deep * parts * TURNS) * 2 * ROUND
        waves = cdiv(tiles * parts, 8 * gpu.sms)
        time = _time(gpu, max(moved / gpu.bandwidth, turns * waves), parts)
        name = f"strided, {width} columns" + (f", {parts} blocks" if parts > 1 else "")
        why = f"{tiles * parts} blocks read {x.numel:,} elements where they are"
        build = functools.partial(
            plans.reduced, row, request, view, out, Pointer(0), (), 1, width, parts, walks
        )
        ways.append(Candidate(name, time, why, build))
    return ways


def _time(gpu: Target, busy: float, parts: int = 1) -> float:
    """Seconds of a launch that keeps the GPU busy so long: the host works on the next call then."""
    host = gpu.launch + (JOIN if parts > 1 else 0)
    return max(host, START + busy) + busy / 100  # of equals, the one that needs the GPU less


def _power(number: int) -> int:
    """The least power of two that is at least this number."""
    return 1 << max(0, number - 1).bit_length()


def _groups(chunks: int) -> list[int]:
    """Options for threads per row: about four vectors per thread."""
    wanted = 1
    while wanted * 4 < chunks and wanted < 32:
        wanted *= 2
    return [wanted] if chunks <= 64 else [32, BLOCK]


def _parts(rows: int, chunks: int, gpu: Target, least: int = 4 * BLOCK) -> tuple[int, ...]:
    """Options for blocks per row: enough to fill the GPU, with some vectors per thread."""
    most = min(cdiv(4 * gpu.sms, rows), chunks // least) if rows <= COUNTERS else 1
    return (1, most) if most > 1 else (1,)
