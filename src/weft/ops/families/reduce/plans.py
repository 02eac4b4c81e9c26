"""Plans of reductions: kernels of cuda/reduce.cu with their arguments and scratch."""

from __future__ import annotations

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import Argument, Buffer, Counters, Plan, Pointer, Step, partials
from weft.ops.families.reduce.model import BLOCK
from weft.ops.families.reduce.reduction import NORMS, Reduction, computed
from weft.ops.families.reduce.views import ReductionView, Walks

STATE = {"argmax": 16, "argmin": 16, "var": 16}
"""Bytes of the state of operations that need more than 8 bytes."""


def reduced(
    op: Reduction, request: Request, view: ReductionView, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, threads: int, parts: int, walks: Walks | None = None, beside: int = 1,
) -> Plan:  # fmt: skip
    types, scale = _types(op, request, out), _scale(op, request, view.n)
    scratch, shared = _partials(op, request, view, x, parts)
    place, where = ("Strided", walks.packed()) if walks else ("Planes", view.packed)
    args: tuple[Argument, ...]
    if view.inner == 1 and view.row_stride == 1:
        each, block = cdiv(cdiv(view.n, vector) + 1, parts), max(BLOCK, threads)
        kernel = source.kernel("reduce/reduce.cu", f"rows<{types}, {vector}, {threads}, {place}>")
        grid = cdiv(view.outer, block // threads) * parts
        args = (x, Pointer(1), *shared, where, view.outer, view.n, parts, each, scale)
    else:
        tiles, block = cdiv(view.inner // vector, threads * beside), BLOCK
        loaded = beside * vector * request.first.itemsize
        along = str(walks is not None and walks.along).lower()
        ahead = turns(loaded, cdiv(cdiv(view.n, parts), BLOCK // threads))
        kernel = source.kernel(
            "reduce/reduce.cu", f"columns<{types}, {vector}, {beside}, {ahead}, {place}, {along}>"
        )
        grid = view.outer * tiles * parts
        args = (x, Pointer(1), *shared, where, view.n, view.inner, threads, BLOCK // threads, tiles,
                parts, cdiv(view.n, parts), scale)  # fmt: skip
    return Plan((*before, Step(kernel, (grid,), (block,), args)), (out,), scratch)


def turns(loaded: int, rows: int) -> int:
    """Rows that a thread of `columns` loads before it adds them, of so many bytes, and all."""
    most = 8 if loaded <= 4 else 4 if loaded <= 16 else 2
    while most > max(1, rows):
        most //= 2
    return most


def small_planes(
    op: Reduction, request: Request, view: ReductionView, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, deep: int, planes: int,
) -> Plan:  # fmt: skip
    types = _types(op, request, out)
    kernel = source.kernel("reduce/reduce.cu", f"small_planes<{types}, {vector}, {deep}>")
    args = (x, Pointer(1), view.packed, view.outer, view.n, view.inner, planes,
            _scale(op, request, view.n))  # fmt: skip
    memory = planes * view.n * view.inner * request.first.itemsize
    step = Step(kernel, (cdiv(view.outer, planes),), (BLOCK,), args, memory)
    return Plan((*before, step), (out,))


def folded(
    op: Reduction, request: Request, view: ReductionView, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, fold: int, width: int, parts: int,
) -> Plan:  # fmt: skip
    kernel = source.kernel("reduce/reduce.cu", f"folded<{_types(op, request, out)}, {vector}>")
    scratch, shared = _partials(op, request, view, x, parts)
    args = (x, Pointer(1), *shared, view.n, view.inner, width, fold, parts,
            cdiv(view.n // fold, parts), _scale(op, request, view.n))  # fmt: skip
    return Plan((*before, Step(kernel, (parts,), (BLOCK,), args)), (out,), scratch)


def _partials(
    op: Reduction, request: Request, view: ReductionView, x: Pointer, parts: int
) -> tuple[tuple[Buffer, ...], tuple[Argument, Argument]]:
    """Scratch for the states of several blocks, and its arguments."""
    if parts == 1:
        return (), (None, None)
    state = STATE.get(op.name, 8) * (2 if request.first.dtype is torch.float64 else 1)
    size = view.outer * view.inner * parts * state
    shared = partials(size)
    if shared is not None:
        return (), (shared, Counters())
    return (Buffer((size,), torch.uint8),), (Pointer(3 if x.number == 2 else 2), Counters())


def _types(op: Reduction, request: Request, out: Buffer) -> str:
    """The first template arguments of the kernels."""
    dtype = request.first.dtype
    operation = NORMS[request.options["ord"]] if op.name == "norm" else op.operation
    return f"{source.ctype(dtype)}, {computed(op, dtype)}, {source.ctype(out.dtype)}, {operation}"


def _scale(op: Reduction, request: Request, n: int) -> float:
    return float(n - request.options["correction"] if op.name == "var" else n)
