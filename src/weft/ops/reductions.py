"""Plans reductions along rows, columns and arbitrary strides."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.copies import after_copy, contiguous
from weft.ops.layouts import Walk, merged
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.target import Target

BLOCK = 256
TURNS, ROUND = 4, 0.8e-6
"""Loads in flight per thread, and their latency in seconds."""
JOIN = 4e-6
"""Seconds to combine the partial results in the last block, and to allocate scratch."""
STATE = {"argmax": 16, "argmin": 16, "var": 16}
"""Bytes of the state of operations that need more than 8 bytes."""
MOST_DIMS = 5
"""Dimensions of the struct Dims of reduce.cu."""
NORMS = {1.0: "Norm1", 2.0: "Norm2", math.inf: "NormInf"}
COMPUTED = {torch.float32: "float", torch.float16: "float", torch.bfloat16: "float",
            torch.float64: "double"}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One op.

    operation  the struct of reduce.cu
    result     "same", "wide" (64-bit integers for integers), "float", "index", "count" or "bool"
    empty      True if the reduced dimensions may be empty
    one        True if a single dimension is reduced, as for argmax
    """

    name: str
    operation: str
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
    if dim is None or dim == ():
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


@dataclass(frozen=True)
class View:
    """A tensor as [outer, n, inner], reduced along n; with inner 1, rows are `stride` apart."""

    outer: int
    n: int
    inner: int
    stride: int


def _view(x: Layout, dims: Sequence[int], ordered: bool) -> View | None:
    """The view for the kernels; None if the tensor must be copied first.

    The reduced dimensions are read in the order of memory, unless the result is a place.
    """
    kept = [d for d in range(len(x.shape)) if d not in dims]
    if not ordered:
        dims = sorted(dims, key=lambda d: -x.strides[d])
    inside = merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    outside = merged([x.shape[d] for d in kept], [[x.strides[d] for d in kept]])
    n, rows = math.prod(inside.sizes), math.prod(outside.sizes)
    if len(inside.sizes) > 1 or len(outside.sizes) > 2:
        return None
    step, outer = inside.strides[0][0], outside.strides[0]
    if n == 1 and outer == (1,):  # nothing to reduce: vectorised like a copy
        return View(1, 1, rows, 0)
    if (step == 1 or n == 1) and len(outside.sizes) == 1:
        return View(rows, n, 1, outer[0] if rows > 1 else n)
    if step == 0:
        return None
    if len(outside.sizes) == 1 and outer[0] == 1 and step == rows:
        return View(1, n, rows, 0)
    if len(outside.sizes) == 2:
        first, second = outside.sizes
        if outer == (n * second, 1) and step == second:
            return View(first, n, second, 0)
    return None


# ---- candidates --------------------------------------------------------------------------------
def candidates(row: Row, request: Request) -> list[Candidate]:
    """The candidates for a reduction."""
    x, options = request.first, request.options
    dims = reduced_dims(len(x.shape), options["dim"])
    out = Buffer(result_shape(x.shape, dims, options["keepdim"]), result_dtype(row, x.dtype))
    if math.prod(out.shape) == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    view = _view(x, dims, ordered=row.one)
    if view is not None:
        return _of_view(row, request, view, out, Pointer(0), x.aligned, ())
    kept = [d for d in range(len(x.shape)) if d not in dims]
    order = [*kept, *dims]
    turned = Layout(x.dtype, tuple(x.shape[d] for d in order), tuple(x.strides[d] for d in order),
                    x.aligned)  # fmt: skip
    copy = contiguous(turned, Pointer(0), Pointer(2), request.target)
    n = math.prod(x.shape[d] for d in dims)
    dense = View(x.numel // max(n, 1), n, 1, n)
    ways = _of_view(row, request, dense, out, Pointer(2), 16, copy.steps)
    scratch = Buffer(turned.shape, x.dtype)
    return [*_of_strides(row, request, kept, dims, out), *after_copy(copy, ways, scratch)]


def _of_view(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    gpu, dtype = request.target, request.first.dtype
    moved = view.outer * view.n * view.inner * dtype.itemsize
    wide = 16 // dtype.itemsize
    make = functools.partial(_plan, row, request, view, out, x, before)
    ways = []
    if view.inner == 1:
        for threads in _groups(cdiv(view.n, wide)):
            blocks = cdiv(view.outer, BLOCK // threads)
            for parts in _parts(view.outer, cdiv(view.n, wide), gpu) if threads == BLOCK else (1,):
                turns = cdiv(cdiv(view.n, wide), threads * parts * TURNS) * ROUND
                waves = cdiv(blocks * parts, 8 * gpu.sms)
                time = gpu.launch + max(moved / gpu.bandwidth, turns * waves)
                time += JOIN if parts > 1 else 0
                name = f"{threads} threads per row" + (f", {parts} blocks" if parts > 1 else "")
                why = f"{blocks * parts} blocks read {moved:,} bytes"
                ways.append(
                    Candidate(name, time, why, functools.partial(make, wide, threads, parts))
                )
        return ways
    vector = wide
    while vector > 1 and (view.inner % vector or aligned % (vector * dtype.itemsize)):
        vector //= 2
    groups = view.inner // vector
    width = min(groups, BLOCK)
    while (
        width > 8
        and view.outer * cdiv(groups, width) < 2 * gpu.sms
        and TURNS * (BLOCK // width) < view.n  # more threads per column would have no work
    ):
        width = cdiv(width, 2)
    tiles = view.outer * cdiv(groups, width)
    deep = BLOCK // width
    for parts in _parts(tiles, cdiv(view.n, deep), gpu, least=4):
        turns = cdiv(view.n, deep * parts * TURNS) * ROUND
        waves = cdiv(tiles * parts, 8 * gpu.sms)
        time = gpu.launch + max(moved / gpu.bandwidth, turns * waves)
        time += JOIN if parts > 1 else 0
        name = f"{width} x {vector} columns" + (f", {parts} blocks" if parts > 1 else "")
        why = f"{tiles * parts} blocks read {moved:,} bytes"
        ways.append(Candidate(name, time, why, functools.partial(make, vector, width, parts)))
    return ways


@dataclass(frozen=True)
class Walks:
    """A strided tensor: its kept and its reduced dimensions, outermost first.

    kept   with the strides of x and of the result
    along  are neighbours in memory along the reduced dimensions?
    """

    kept: Walk
    reduced: Walk
    along: bool

    def packed(self) -> bytes:
        """The struct `Strided` of reduce.cu."""
        x, y = self.kept.strides
        walks = ((self.kept.sizes, x), (self.reduced.sizes, self.reduced.strides[0]),
                 (self.kept.sizes, y))  # fmt: skip
        return b"".join(
            struct.pack("<i5I5q", len(sizes), *_filled(sizes, 1), *_filled(strides, 0))
            for sizes, strides in walks
        )


def _filled(values: Sequence[int], rest: int) -> list[int]:
    return [*values, *[rest] * (MOST_DIMS - len(values))]


def _of_strides(
    row: Row, request: Request, kept: Sequence[int], dims: Sequence[int], out: Buffer
) -> list[Candidate]:
    """Candidates that read any strides; the address of each element costs divisions."""
    x, gpu = request.first, request.target
    if not row.one:
        dims = sorted(dims, key=lambda d: -x.strides[d])
    reduced = merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    results = dict(zip(kept, Buffer(tuple(x.shape[d] for d in kept), x.dtype).steps, strict=True))
    kept = sorted(kept, key=lambda d: -x.strides[d])  # neighbouring threads read neighbours
    outside = merged(
        [x.shape[d] for d in kept], [[x.strides[d] for d in kept], [results[d] for d in kept]]
    )
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
    view, walks = View(1, n, rows, 0), Walks(outside, reduced, along)
    for parts in _parts(tiles, cdiv(n, deep), gpu, least=4):
        turns = cdiv(n, deep * parts * TURNS) * 2 * ROUND
        time = gpu.launch + max(moved / gpu.bandwidth, turns * cdiv(tiles * parts, 8 * gpu.sms))
        time += JOIN if parts > 1 else 0
        name = f"strided, {width} columns" + (f", {parts} blocks" if parts > 1 else "")
        why = f"{tiles * parts} blocks read {x.numel:,} elements where they are"
        build = functools.partial(
            _plan, row, request, view, out, Pointer(0), (), 1, width, parts, walks
        )
        ways.append(Candidate(name, time, why, build))
    return ways


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
    dtype, options = request.first.dtype, request.options
    operation = NORMS[options["ord"]] if row.name == "norm" else row.operation
    types = (
        f"{source.ctype(dtype)}, {_computed(row, dtype)}, {source.ctype(out.dtype)}, {operation}"
    )
    scale = float(view.n - options["correction"] if row.name == "var" else view.n)
    scratch: tuple[Buffer, ...] = ()
    partials: tuple[Any, Any] = (None, None)
    if parts > 1:
        size = STATE.get(row.name, 8) * (2 if dtype is torch.float64 else 1)
        scratch = (Buffer((view.outer * view.inner * parts * size,), torch.uint8),)
        partials = (Pointer(3 if x.number == 2 else 2), Counters())
    args: tuple[Argument, ...]
    if view.inner == 1 and walks is None:
        each = cdiv(cdiv(view.n, vector) + 1, parts)
        kernel = source.kernel("reduce.cu", f"rows<{types}, {vector}, {threads}>")
        grid = (cdiv(view.outer, BLOCK // threads) * parts,)
        args = (x, Pointer(1), *partials, view.outer, view.n, view.stride, parts, each, scale)
    else:
        tiles = cdiv(view.inner // vector, threads)
        place = "Strided" if walks else "Dense"
        along = str(walks is not None and walks.along).lower()
        kernel = source.kernel("reduce.cu", f"columns<{types}, {vector}, {place}, {along}>")
        grid = (view.outer * tiles * parts,)
        where = walks.packed() if walks else struct.pack("<2q", view.n, view.inner)
        args = (x, Pointer(1), *partials, where, view.n, view.inner, threads, tiles, parts,
                cdiv(view.n, parts), scale)  # fmt: skip
    return Plan((*before, Step(kernel, grid, (BLOCK,), args)), (out,), scratch)
