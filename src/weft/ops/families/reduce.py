"""Reductions along any dimensions: sums, products, extremes, their places, norms, variances."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.copies import after_copy, contiguous
from weft.ops.function import Definition
from weft.ops.layouts import merged
from weft.ops.plan import COUNTERS, Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.target import Target

BLOCK = 256
TURNS, ROUND = 4, 0.8e-6
"""Loads that a thread has under way at once, and seconds until they have arrived."""
JOIN = 4e-6
"""Seconds for the last block to join what the others have found, and for the scratch of a call."""
STATE = {"argmax": 16, "argmin": 16, "var": 16}
"""Bytes of the state of operations whose state is not one number of at most 8 bytes."""


@dataclass(frozen=True)
class Row:
    """One op.

    operation  the struct of reduce.cu
    result     "same", "wide" (64-bit integers for integers), "float", "index", "count" or "bool"
    empty      may there be no element along the reduced dimensions?
    one        is a single dimension reduced, as for argmax?
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


ROWS = (
    Row("sum", "Sum", "The sum", "wide", torch.sum),
    Row("mean", "Mean", "The mean", "float", torch.mean, integers=False),
    Row("prod", "Product", "The product", "wide", torch.prod),
    Row("amax", "Max", "The largest element", "same", torch.amax, empty=False),
    Row("amin", "Min", "The smallest element", "same", torch.amin, empty=False),
    Row("argmax", "ArgMax", "The index of the largest element", "index", torch.argmax,
        empty=False, one=True),
    Row("argmin", "ArgMin", "The index of the smallest element", "index", torch.argmin,
        empty=False, one=True),
    Row("norm", "Norm2", "The norm of order 1, 2 or infinity", "float",
        lambda x, dim, keepdim, ord: torch.linalg.vector_norm(x, ord, dim, keepdim),
        extra=", float ord=2.0", integers=False),
    Row("var", "Var", "The variance", "float",
        lambda x, dim, keepdim, c: torch.var(x, dim, correction=c, keepdim=keepdim),
        extra=", int correction=1", integers=False),
    Row("any", "Any", "Whether any element is not zero", "bool", torch.any),
    Row("all", "All", "Whether all elements are not zero", "bool", torch.all),
    Row("count_nonzero", "Count", "The number of elements that are not zero", "count",
        lambda x, dim, keepdim: (x != 0).sum(dim, keepdim)),
)  # fmt: skip

NORMS = {1.0: "Norm1", 2.0: "Norm2", math.inf: "NormInf"}
COMPUTED = {torch.float32: "float", torch.float16: "float", torch.bfloat16: "float",
            torch.float64: "double"}  # fmt: skip


# ---- shapes and dtypes -------------------------------------------------------------------------
def _dims(rank: int, dim: Any) -> tuple[int, ...]:
    """The reduced dimensions in order; all where none is named."""
    if dim is None or dim == ():
        return tuple(range(rank))
    named = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted({d % max(rank, 1) for d in named})) if rank else ()


def _shape(shape: Sequence[Any], dims: Sequence[int], keepdim: bool) -> tuple[Any, ...]:
    kept = [(1 if i in dims else s) for i, s in enumerate(shape)]
    return tuple(kept if keepdim else [s for i, s in enumerate(shape) if i not in dims])


def _dtype(row: Row, dtype: torch.dtype) -> torch.dtype:
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
    """How the kernels read a tensor as it is; None where it must be copied first.

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
    if n == 1 and outer == (1,):  # nothing to join: vectors of neighbours, as in a copy
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
def _candidates(row: Row, request: Request) -> list[Candidate]:
    x, options = request.first, request.options
    dims = _dims(len(x.shape), options["dim"])
    out = Buffer(_shape(x.shape, dims, options["keepdim"]), _dtype(row, x.dtype))
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
    candidates = _of_view(row, request, dense, out, Pointer(2), 16, copy.steps)
    scratch = Buffer(turned.shape, x.dtype)
    return after_copy(copy, candidates, scratch)


def _of_view(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    gpu, dtype = request.target, request.first.dtype
    moved = view.outer * view.n * view.inner * dtype.itemsize
    wide = 16 // dtype.itemsize
    make = functools.partial(_plan, row, request, view, out, x, before)
    candidates = []
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
                candidates.append(
                    Candidate(name, time, why, functools.partial(make, wide, threads, parts))
                )
        return candidates
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
        candidates.append(Candidate(name, time, why, functools.partial(make, vector, width, parts)))
    return candidates


def _groups(chunks: int) -> list[int]:
    """Numbers of threads for a row: about four vectors each."""
    wanted = 1
    while wanted * 4 < chunks and wanted < 32:
        wanted *= 2
    return [wanted] if chunks <= 64 else [32, BLOCK]


def _parts(rows: int, chunks: int, gpu: Target, least: int = 4 * BLOCK) -> tuple[int, ...]:
    """Numbers of blocks for a row: enough for the GPU, each with some vectors per thread."""
    most = min(cdiv(4 * gpu.sms, rows), chunks // least) if rows <= COUNTERS else 1
    return (1, most) if most > 1 else (1,)


# ---- plans -------------------------------------------------------------------------------------
def _plan(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, threads: int, parts: int,
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
    if view.inner == 1:
        each = cdiv(cdiv(view.n, vector) + 1, parts)
        kernel = source.kernel("reduce.cu", f"rows<{types}, {vector}, {threads}>")
        grid = (cdiv(view.outer, BLOCK // threads) * parts,)
        args = (x, Pointer(1), *partials, view.outer, view.n, view.stride, parts, each, scale)
    else:
        tiles = cdiv(view.inner // vector, threads)
        kernel = source.kernel("reduce.cu", f"columns<{types}, {vector}>")
        grid = (view.outer * tiles * parts,)
        args = (x, Pointer(1), *partials, view.n, view.inner, threads, tiles, parts,
                cdiv(view.n, parts), scale)  # fmt: skip
    return Plan((*before, Step(kernel, grid, (BLOCK,), args)), (out,), scratch)


# ---- definitions -------------------------------------------------------------------------------
def _check(row: Row, x: Any, dim: Any, keepdim: bool, *extra: Any) -> None:
    if x.dtype not in source.CTYPES or (not row.integers and not x.dtype.is_floating_point):
        allowed = [d for d in source.CTYPES if row.integers or d.is_floating_point]
        raise ArgumentError(
            f"weft.ops.{row.name}: 'x' has a dtype that no kernel takes",
            got=str(x.dtype), allowed=", ".join(str(d).removeprefix("torch.") for d in allowed),
        )  # fmt: skip
    named = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    rank = max(x.dim(), 1)
    if any(not -rank <= d < rank for d in named) or len({d % rank for d in named}) < len(named):
        raise ArgumentError(
            f"weft.ops.{row.name}: the dimensions are not those of the tensor",
            got=f"dim {dim} of {x.dim()} dimensions", allowed=f"{-rank} to {rank - 1}, each once",
        )  # fmt: skip
    dims = _dims(x.dim(), dim)
    if not row.empty and 0 in [x.shape[d] for d in dims]:
        raise ArgumentError(
            f"weft.ops.{row.name}: there is no element along the reduced dimensions",
            got=f"shape {list(x.shape)}, dim {dim}", allowed="at least one element",
        )  # fmt: skip
    if row.name == "norm" and extra[0] not in NORMS:
        raise ArgumentError(
            "weft.ops.norm: there are no kernels for this order",
            got=str(extra[0]), allowed="1, 2, math.inf",
        )  # fmt: skip


def _fake(row: Row, x: Any, dim: Any = None, keepdim: bool = False, *extra: Any) -> Any:
    shape = _shape(x.shape, _dims(x.dim(), dim), keepdim)
    return x.new_empty(shape, dtype=_dtype(row, x.dtype))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.rest = inputs[1:]


def _backward(row: Row, ctx: Any, grad: Any) -> Any:
    """By torch's own derivative of the same function."""
    (x,) = ctx.saved_tensors
    dim, keepdim, *extra = ctx.rest
    dims = _dims(x.dim(), dim)
    with torch.enable_grad():
        again = x.detach().requires_grad_()
        if row.name == "prod":
            y = _product(again, dims, keepdim)
        else:
            y = row.torch(again, dims, keepdim, *extra)
    (gradient,) = torch.autograd.grad(y, again, grad)
    return (gradient, None, None, *(None for _ in extra))


def _product(x: Any, dims: Sequence[int], keepdim: bool) -> Any:
    for d in reversed(dims):
        x = torch.prod(x, d, keepdim)
    return x


DIFFERENTIABLE = ("sum", "mean", "prod", "amax", "amin", "norm", "var")


def _definition(row: Row) -> Definition:
    dims = "int? dim=None" if row.one else "int[1]? dim=None"
    smooth = row.name in DIFFERENTIABLE
    return Definition(
        name=row.name,
        schema=f"(Tensor x, {dims}, bool keepdim=False{row.extra}) -> Tensor",
        doc=f"{row.doc}, along some dimensions of x or all of them.",
        fake=functools.partial(_fake, row),
        candidates=functools.partial(_candidates, row),
        check=functools.partial(_check, row),
        setup=_setup if smooth else None,
        backward=functools.partial(_backward, row) if smooth else None,
        autocast=None,
    )


DEFINITIONS = tuple(map(_definition, ROWS))
