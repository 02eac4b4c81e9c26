"""Builds the plans of reductions: kernels of cuda/reduce.cu with their arguments and scratch."""

from __future__ import annotations

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Request
from weft.ops.plan import Argument, Buffer, Counters, Plan, Pointer, Step
from weft.ops.reduction.row import NORMS, Row, computed
from weft.ops.reduction.views import View, Walks

BLOCK = 256
"""Threads of a block."""
STATE = {"argmax": 16, "argmin": 16, "var": 16}
"""Bytes of the state of operations that need more than 8 bytes."""


def reduced(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, threads: int, parts: int, walks: Walks | None = None,
) -> Plan:  # fmt: skip
    types, scale = _types(row, request, out), _scale(row, request, view.n)
    scratch, partials = _partials(row, request, view, x, parts)
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


def short_rows(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int,
) -> Plan:  # fmt: skip
    kernel = source.kernel("reduce.cu", f"short_rows<{_types(row, request, out)}, {vector}>")
    args = (x, Pointer(1), view.outer, view.n, _scale(row, request, view.n))
    memory = BLOCK * view.n * request.first.itemsize
    step = Step(kernel, (cdiv(view.outer, BLOCK),), (BLOCK,), args, memory)
    return Plan((*before, step), (out,))


def folded(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    vector: int, fold: int, width: int, parts: int,
) -> Plan:  # fmt: skip
    kernel = source.kernel("reduce.cu", f"folded<{_types(row, request, out)}, {vector}>")
    scratch, partials = _partials(row, request, view, x, parts)
    args = (x, Pointer(1), *partials, view.n, view.inner, width, fold, parts,
            cdiv(view.n // fold, parts), _scale(row, request, view.n))  # fmt: skip
    return Plan((*before, Step(kernel, (parts,), (BLOCK,), args)), (out,), scratch)


def _partials(
    row: Row, request: Request, view: View, x: Pointer, parts: int
) -> tuple[tuple[Buffer, ...], tuple[Argument, Argument]]:
    """Scratch for the states of several blocks, and its arguments."""
    if parts == 1:
        return (), (None, None)
    size = STATE.get(row.name, 8) * (2 if request.first.dtype is torch.float64 else 1)
    scratch = Buffer((view.outer * view.inner * parts * size,), torch.uint8)
    return (scratch,), (Pointer(3 if x.number == 2 else 2), Counters())


def _types(row: Row, request: Request, out: Buffer) -> str:
    """The first template arguments of the kernels."""
    dtype = request.first.dtype
    operation = NORMS[request.options["ord"]] if row.name == "norm" else row.operation
    return f"{source.ctype(dtype)}, {computed(row, dtype)}, {source.ctype(out.dtype)}, {operation}"


def _scale(row: Row, request: Request, n: int) -> float:
    return float(n - request.options["correction"] if row.name == "var" else n)
