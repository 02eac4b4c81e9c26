"""Plan the gradients of softmax and log_softmax."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.cluster_rows import ClusterRows, cluster_of
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.rows import BLOCK, View, group, parts_of, view_of
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.softmax import model

_OUT, _SCRATCH = 2, 3
"""Tensor indices; 0 and 1 are the gradient and the forward result."""


@dataclass(frozen=True)
class SoftmaxBackwardJob:
    """A call: the view of the tensors, their addresses, and preceding copies."""

    log: bool
    view: View
    out: Buffer
    inputs: tuple[Pointer, Pointer]
    before: tuple[Step, ...]
    scratch: tuple[Buffer, ...]

    def kernel(self, name: str, *parameters: object) -> Any:
        words = (source.ctype(self.out.dtype), *parameters, self.log)
        return source.kernel("softmax/backward.cu", source.template(name, *words))

    def plan(self, *steps: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        return Plan((*self.before, *steps), (self.out,), (*self.scratch, *scratch))

    def two_passes(
        self, first: Any, second: Any, blocks: int, sums: int, rest: tuple[Argument, ...]
    ) -> Plan:
        """Partial sums, then results; `rest` has the arguments of both kernels."""
        partials = Pointer(_SCRATCH + len(self.scratch))
        steps = (
            Step(first, (blocks,), (BLOCK,), (*self.inputs, partials, *rest)),
            Step(second, (blocks,), (BLOCK,), (*self.inputs, Pointer(_OUT), partials, *rest)),
        )
        return self.plan(*steps, scratch=(Buffer((sums,), torch.float32),))


def candidates(log: bool, request: Request) -> list[Candidate]:
    """Candidates of a call; `log`: of log_softmax."""
    y = request.inputs[1]
    assert y is not None
    out = Buffer(y.shape, y.dtype)
    if y.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    inputs: list[Pointer] = []
    before: list[Step] = []
    scratch: list[Buffer] = []
    cost = 0.0
    aligned = 16
    for number, x in enumerate(request.inputs):
        assert x is not None
        pointer = Pointer(number)
        if not x.contiguous:
            pointer = Pointer(_SCRATCH + len(scratch))
            copy = contiguous(x, Pointer(number), pointer, request.target)
            before += copy.steps
            cost += copy.cost
            scratch.append(Buffer(x.shape, x.dtype))
        else:
            aligned = min(aligned, x.aligned)
        inputs.append(pointer)
    seen = view_of(Layout(y.dtype, y.shape, out.steps, aligned), request.options["dim"])
    assert seen is not None
    job = SoftmaxBackwardJob(log, seen, out, (inputs[0], inputs[1]), tuple(before), tuple(scratch))
    of_view = _of_columns if seen.inner > 1 else _of_rows
    return [Candidate(c.name, c.cost + cost, c.why, c.build) for c in of_view(job, request)]


def _of_rows(job: SoftmaxBackwardJob, request: Request) -> list[Candidate]:
    """Candidates for the last dimension: rows in registers, or in two passes."""
    v, gpu = job.view, request.target
    moved = 3 * v.outer * v.n * job.out.dtype.itemsize
    chunks = cdiv(v.n, v.vector) + (v.n % v.vector > 0)
    parts = parts_of(v, chunks, gpu.sms)
    time = 2 * gpu.launch + model.BACKWARD_ROWS.time(moved, moved, gpu)
    why = f"{parts} blocks per row, two passes"
    made = [Candidate("long rows", time, why, functools.partial(_long, job, parts, chunks))]
    if (by := cluster_of(v, chunks, int(job.out.dtype.itemsize), gpu, tensors=2)) is not None:
        time = gpu.launch + by.time(moved)
        build = functools.partial(_cluster_rows, job, by)
        made.append(Candidate("rows in clusters", time, by.why, build))
    threads, vectors, rest = group(chunks, model.BACKWARD_VECTORS)
    if not rest:
        why = f"{threads} threads per row, {vectors} vectors of {v.vector} in registers each"
        build = functools.partial(_rows, job, threads, vectors)
        made.insert(0, Candidate("rows", gpu.launch + moved / gpu.bandwidth, why, build))
    return made


def _rows(job: SoftmaxBackwardJob, threads: int, vectors: int) -> Plan:
    v = job.view
    block = 128 if threads <= 32 else threads
    kernel = job.kernel("rows", v.vector, threads, vectors)
    args = (*job.inputs, Pointer(_OUT), v.outer, v.n)
    return job.plan(Step(kernel, (cdiv(v.outer, block // threads),), (block,), args, early=True))


def _cluster_rows(job: SoftmaxBackwardJob, by: ClusterRows) -> Plan:
    v = job.view
    parameters = (v.vector, v.n % v.vector == 0, by.threads, job.log)
    words = source.template("cluster_gradients", source.ctype(job.out.dtype), *parameters)
    kernel = source.kernel("softmax/cluster.cu", words)
    args = (*job.inputs, Pointer(_OUT), v.n, by.each)
    grid, cluster = (v.outer * by.blocks,), (by.blocks, 1, 1)
    return job.plan(Step(kernel, grid, (by.threads,), args, by.shared, cluster, early=True))


def _long(job: SoftmaxBackwardJob, parts: int, chunks: int) -> Plan:
    v = job.view
    first = job.kernel("parts_of_rows", v.vector)
    second = job.kernel("finish_rows", v.vector)
    blocks = v.outer * parts
    return job.two_passes(first, second, blocks, blocks, (v.n, parts, cdiv(chunks, parts)))


def _of_columns(job: SoftmaxBackwardJob, request: Request) -> list[Candidate]:
    """Candidates for a dimension that is not the last: one block per column, or several."""
    v, gpu = job.view, request.target
    moved = 3 * v.outer * v.n * v.inner * job.out.dtype.itemsize
    width, tiles, parts, busy = model.columns_of(v, job.out.dtype.itemsize, gpu)
    reading = model.BACKWARD_COLUMNS.time(moved, moved, gpu)
    why = f"{tiles} blocks, {width} columns each; n is read twice"
    build = functools.partial(_columns, job, width)
    time = gpu.launch + max(reading, model.BACKWARD_BUSY * busy)
    made = [Candidate("columns", time, why, build)]
    if parts > 1:
        why = f"{parts} blocks per column, two passes"
        build = functools.partial(_long_columns, job, width, parts)
        made.append(Candidate("long columns", 2 * gpu.launch + reading, why, build))
    return made


def _columns(job: SoftmaxBackwardJob, width: int) -> Plan:
    v = job.view
    tiles = cdiv(v.inner, width)
    args = (*job.inputs, Pointer(_OUT), v.n, v.inner, width, tiles)
    return job.plan(Step(job.kernel("columns"), (v.outer * tiles,), (BLOCK,), args, early=True))


def _long_columns(job: SoftmaxBackwardJob, width: int, parts: int) -> Plan:
    v = job.view
    tiles = cdiv(v.inner, width)
    first, second = job.kernel("parts_of_columns"), job.kernel("finish_columns")
    rest = (v.n, v.inner, width, tiles, parts, cdiv(v.n, parts))
    return job.two_passes(first, second, v.outer * tiles * parts, v.outer * parts * v.inner, rest)
