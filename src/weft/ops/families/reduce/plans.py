"""Plans of reductions: kernels of cuda/reduce.cu with their arguments and scratch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import Argument, Buffer, Counters, Plan, Pointer, Step, partials
from weft.ops.families.reduce.model import BLOCK
from weft.ops.families.reduce.reduction import NORMS, Reduction, computed
from weft.ops.families.reduce.views import STRUCTS, ReductionView, Walks

STATE = {"argmax": 16, "argmin": 16, "var": 16}
"""Bytes of the state of operations that need more than 8 bytes."""


@dataclass(frozen=True)
class ReductionJob:
    """A reduction of a view.

    x       the address that the kernels read, `aligned` to so many bytes
    before  launches that precede
    """

    op: Reduction
    request: Request
    view: ReductionView
    out: Buffer
    x: Pointer
    aligned: int
    before: tuple[Step, ...] = ()

    def plan(self, step: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        return Plan((*self.before, step), (self.out,), scratch)


def reduced(
    job: ReductionJob, vector: int, threads: int, parts: int, walks: Walks | None, beside: int = 1
) -> Plan:
    """One launch of `rows` or `columns`."""
    view, types, scale = job.view, _types(job), _scale(job)
    scratch, shared = _partials(job, parts)
    place, where = ("Strided", walks.packed()) if walks else ("Planes", view.packed)
    args: tuple[Argument, ...]
    if view.inner == 1 and view.row_stride == 1:
        each, block = cdiv(cdiv(view.n, vector) + 1, parts), max(BLOCK, threads)
        kernel = _kernel(f"rows<{types}, {vector}, {threads}, {place}>")
        grid = cdiv(view.outer, block // threads) * parts
        args = (job.x, Pointer(1), *shared, where, view.outer, view.n, parts, each, scale)
    else:
        tiles, block = cdiv(view.inner // vector, threads * beside), BLOCK
        loaded = beside * vector * job.request.first.itemsize
        along = str(walks is not None and walks.along).lower()
        ahead = turns(loaded, cdiv(cdiv(view.n, parts), BLOCK // threads))
        kernel = _kernel(f"columns<{types}, {vector}, {beside}, {ahead}, {place}, {along}>")
        grid = view.outer * tiles * parts
        shape = (view.n, view.inner, threads, BLOCK // threads, tiles, parts)
        args = (job.x, Pointer(1), *shared, where, *shape, cdiv(view.n, parts), scale)
    return job.plan(Step(kernel, (grid,), (block,), args, early=True), scratch)


def lines(job: ReductionJob, vector: int, threads: int, parts: int, walks: Walks) -> Plan:
    """One launch of `lines`."""
    kernel = _kernel(f"lines<{_types(job)}, {vector}, {threads}>")
    scratch, shared = _partials(job, parts)
    length = walks.reduced.sizes[-1]
    shape = (walks.n // length, length, parts)
    args = (job.x, Pointer(1), *shared, walks.packed(), *shape, _scale(job))
    return job.plan(Step(kernel, (walks.rows * parts,), (BLOCK,), args, early=True), scratch)


def turns(loaded: int, rows: int) -> int:
    """Rows that a thread of `columns` loads before it adds them, of so many bytes, and all."""
    most = 8 if loaded <= 4 else 4 if loaded <= 16 else 2
    while most > 1 and most // 2 >= rows:  # the last rows, fewer than these, are loaded at once
        most //= 2
    return most


def small_planes(job: ReductionJob, vector: int, deep: int, planes: int) -> Plan:
    """One launch of `small_planes`."""
    view, types = job.view, _types(job)
    kernel = _kernel(f"small_planes<{types}, {vector}, {deep}>")
    shape = (view.packed, view.outer, view.n, view.inner, planes)
    args = (job.x, Pointer(1), *shape, _scale(job))
    memory = planes * view.n * view.inner * job.request.first.itemsize
    return job.plan(Step(kernel, (cdiv(view.outer, planes),), (BLOCK,), args, memory, early=True))


def folded(job: ReductionJob, vector: int, fold: int, width: int, parts: int) -> Plan:
    """One launch of `folded`."""
    view = job.view
    kernel = _kernel(f"folded<{_types(job)}, {vector}>")
    scratch, shared = _partials(job, parts)
    shape = (view.n, view.inner, width, fold, parts, cdiv(view.n // fold, parts))
    args = (job.x, Pointer(1), *shared, *shape, _scale(job))
    return job.plan(Step(kernel, (parts,), (BLOCK,), args, early=True), scratch)


def _kernel(name: str) -> Kernel:
    return source.kernel("reduce/reduce.cu", name, **STRUCTS)


def _partials(
    job: ReductionJob, parts: int
) -> tuple[tuple[Buffer, ...], tuple[Argument, Argument]]:
    """Scratch for the states of several blocks, and its arguments."""
    if parts == 1:
        return (), (None, None)
    state = STATE.get(job.op.name, 8) * (2 if job.request.first.dtype is torch.float64 else 1)
    size = job.view.outer * job.view.inner * parts * state
    shared = partials(size)
    if shared is not None:
        return (), (shared, Counters())
    return (Buffer((size,), torch.uint8),), (Pointer(3 if job.x.number == 2 else 2), Counters())


def _types(job: ReductionJob) -> str:
    """The first template arguments of the kernels."""
    op, dtype = job.op, job.request.first.dtype
    operation = NORMS[job.request.options["ord"]] if op.name == "norm" else op.operation
    out = source.ctype(job.out.dtype)
    return f"{source.ctype(dtype)}, {computed(op, dtype)}, {out}, {operation}"


def _scale(job: ReductionJob) -> float:
    n = job.view.n
    return float(n - job.request.options["correction"] if job.op.name == "var" else n)
