"""Plans reductions along rows, columns and arbitrary strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.copies import after_copy, contiguous
from weft.ops.layouts import merged
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.pointwise import Job, Operand, Way
from weft.ops.pointwise import ways as ways_of
from weft.ops.reduced_views import MOST_DIMS, View, Walks, dense_rows, kept_dims, view_of
from weft.ops.target import Target

BLOCK = 256
TURNS, ROUND = 4, 0.8e-6
"""Loads in flight per thread, and their latency in seconds."""
JOIN = 4e-6
"""Seconds of the host to allocate scratch and to pass counters."""
START = 2e-6
"""Seconds from the start of a kernel to its first results."""
STATE = {"argmax": 16, "argmin": 16, "var": 16}
"""Bytes of the state of operations that need more than 8 bytes."""
SHORT = 64
"""Bytes of a row from which on several threads read it in vectors."""
NARROW = 128
"""Columns of a plane below which a block may have columns of several planes."""
LINE, SECTOR = 128, 32
"""Bytes of a cache line, and of the smallest access to memory."""
NORMS = {1.0: "Norm1", 2.0: "Norm2", math.inf: "NormInf"}
COMPUTED = {torch.float32: "float", torch.float16: "float", torch.bfloat16: "float",
            torch.float64: "double"}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One op.

    operation  the struct of reduce.cu
    single     the result for a single element a, as C++; s is the number of elements less the
               correction of `var`
    result     "same", "wide" (64-bit integers for integers), "float", "index", "count" or "bool"
    empty      True if the reduced dimensions may be empty
    one        True if a single dimension is reduced, as for argmax
    """

    name: str
    operation: str
    single: str
    doc: str
    result: str
    torch: Callable[..., Any]
    empty: bool = True
    one: bool = False
    extra: str = ""
    integers: bool = True


# ---- shapes and dtypes -------------------------------------------------------------------------
def reduced_dims(rank: int, dim: Any) -> tuple[int, ...]:
    """The reduced dimensions in order; all if none is named."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(rank))
    named = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted({d % max(rank, 1) for d in named})) if rank else ()


def result_shape(shape: Sequence[Any], dims: Sequence[int], keepdim: bool) -> tuple[Any, ...]:
    """The shape of the result."""
    kept = [(1 if i in dims else s) for i, s in enumerate(shape)]
    return tuple(kept if keepdim else [s for i, s in enumerate(shape) if i not in dims])


def result_dtype(row: Row, dtype: torch.dtype) -> torch.dtype:
    """The dtype of the result."""
    if row.result in ("index", "count"):
        return torch.int64
    if row.result == "bool":
        return torch.bool
    if row.result == "wide" and not dtype.is_floating_point:
        return torch.int64
    return dtype


def _computed(row: Row, dtype: torch.dtype) -> str:
    if dtype.is_floating_point:
        return COMPUTED[dtype]
    return "long long" if row.result == "wide" or dtype is torch.int64 else "int"


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
        row.single, _computed(row, x.dtype), tuple(x.shape[d] for d in kept), (operand,),
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
    make = functools.partial(_plan, row, request, view, out, x, before)
    if view.inner == 1 and view.row_stride == 1:
        return [
            *_of_short_rows(row, request, view, out, x, aligned, before),
            *_of_rows(request, view, make),
        ]
    return _of_columns(request, view, out, aligned, make)


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
    build = functools.partial(_short_rows, row, request, view, out, x, before, vector)
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
    ways = []
    for parts in _parts(tiles, cdiv(view.n, deep), gpu, least=4):
        turns = cdiv(view.n, deep * parts * TURNS) * ROUND
        waves = cdiv(tiles * parts, 8 * gpu.sms)
        time = _time(gpu, max(moved / gpu.bandwidth, turns * waves), parts)
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
            _plan, row, request, view, out, Pointer(0), (), 1, width, parts, walks
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


# ---- plans -------------------------------------------------------------------------------------
def _plan(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, threads: int, parts: int, walks: Walks | None = None,
) -> Plan:  # fmt: skip
    dtype = request.first.dtype
    types, scale = _types(row, request, out), _scale(row, request, view.n)
    scratch: tuple[Buffer, ...] = ()
    partials: tuple[Any, Any] = (None, None)
    if parts > 1:
        size = STATE.get(row.name, 8) * (2 if dtype is torch.float64 else 1)
        scratch = (Buffer((view.outer * view.inner * parts * size,), torch.uint8),)
        partials = (Pointer(3 if x.number == 2 else 2), Counters())
    args: tuple[Argument, ...]
    if view.inner == 1 and view.row_stride == 1 and walks is None:
        each = cdiv(cdiv(view.n, vector) + 1, parts)
        kernel = source.kernel("reduce.cu", f"rows<{types}, {vector}, {threads}>")
        grid = (cdiv(view.outer, BLOCK // threads) * parts,)
        args = (x, Pointer(1), *partials, view.outer, view.n, view.outer_stride, parts, each,
                scale)  # fmt: skip
    else:
        tiles = cdiv(view.inner // vector, threads)
        place = "Strided" if walks else "Planes"
        along = str(walks is not None and walks.along).lower()
        kernel = source.kernel("reduce.cu", f"columns<{types}, {vector}, {place}, {along}>")
        grid = (view.outer * tiles * parts,)
        where = walks.packed() if walks else view.packed
        args = (x, Pointer(1), *partials, where, view.n, view.inner, threads, tiles, parts,
                cdiv(view.n, parts), scale)  # fmt: skip
    return Plan((*before, Step(kernel, grid, (BLOCK,), args)), (out,), scratch)


def _short_rows(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int,
) -> Plan:  # fmt: skip
    kernel = source.kernel("reduce.cu", f"short_rows<{_types(row, request, out)}, {vector}>")
    args = (x, Pointer(1), view.outer, view.n, _scale(row, request, view.n))
    memory = BLOCK * view.n * request.first.itemsize
    step = Step(kernel, (cdiv(view.outer, BLOCK),), (BLOCK,), args, memory)
    return Plan((*before, step), (out,))


def _types(row: Row, request: Request, out: Buffer) -> str:
    """The first template arguments of the kernels."""
    dtype = request.first.dtype
    operation = NORMS[request.options["ord"]] if row.name == "norm" else row.operation
    computed = _computed(row, dtype)
    return f"{source.ctype(dtype)}, {computed}, {source.ctype(out.dtype)}, {operation}"


def _scale(row: Row, request: Request, n: int) -> float:
    return float(n - request.options["correction"] if row.name == "var" else n)
