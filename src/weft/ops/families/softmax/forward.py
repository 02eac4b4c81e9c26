"""Plan softmax and log_softmax along any dimension."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.cluster_rows import ClusterRows, cluster_of
from weft.ops.core.model import BLOCK_RESERVED, SM_COPY_BANDWIDTH
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.rows import BLOCK, View, group, packed_bytes, parts_of, view_of
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import after_copy, contiguous
from weft.ops.families.softmax import model
from weft.ops.families.softmax.model import STAGED

_OUT = Pointer(1)


@dataclass(frozen=True)
class SoftmaxJob:
    """A call: the view of its tensor, its address and alignment, and preceding copies."""

    log: bool
    view: View
    out: Buffer
    x: Pointer
    aligned: int
    gpu: Target
    before: tuple[Step, ...] = ()

    @property
    def itemsize(self) -> int:
        return int(self.out.dtype.itemsize)

    @property
    def moved(self) -> int:
        """Bytes to read once and to write."""
        v = self.view
        return 2 * v.outer * v.n * v.inner * self.itemsize

    @property
    def whole(self) -> bool:
        """True if rows are whole vectors."""
        return self.view.vector > 1 and self.view.n % self.view.vector == 0

    def kernel(self, name: str, *parameters: object) -> Kernel:
        words = (source.ctype(self.out.dtype), *parameters)
        return source.kernel("softmax/forward.cu", source.template(name, *words))

    def row_kernel(self, name: str, *parameters: object) -> Kernel:
        """A kernel for rows, which has a parameter for rows of whole vectors."""
        return self.kernel(name, self.view.vector, self.whole, *parameters)

    def plan(self, *steps: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        return Plan((*self.before, *steps), (self.out,), scratch)

    def two_passes(
        self, first: Kernel, second: Kernel, blocks: int, sums: int, rest: tuple[int, ...]
    ) -> Plan:
        """Partial sums, then results; `rest` has the last arguments of both kernels."""
        partials = Pointer(3 if self.x.number == 2 else 2)
        steps = (
            Step(first, (blocks,), (BLOCK,), (self.x, partials, *rest)),
            Step(second, (blocks,), (BLOCK,), (self.x, _OUT, partials, *rest)),
        )
        return self.plan(*steps, scratch=(Buffer((sums, 2), torch.float32),))


def candidates(log: bool, request: Request) -> list[Candidate]:
    """Candidates of a call; `log`: of log_softmax."""
    x, dim, gpu = request.first, request.options["dim"], request.target
    out = Buffer(x.shape, x.dtype)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    view = view_of(x, dim)
    if view is not None:
        return _of_view(SoftmaxJob(log, view, out, Pointer(0), x.aligned, gpu))
    copied = view_of(Layout(x.dtype, x.shape, out.steps, 16), dim)
    assert copied is not None
    copy = contiguous(x, Pointer(0), Pointer(2), gpu)
    made = _of_view(SoftmaxJob(log, copied, out, Pointer(2), 16, gpu, copy.steps))
    return after_copy(copy, made, Buffer(x.shape, x.dtype))


def _of_view(job: SoftmaxJob) -> list[Candidate]:
    if job.view.n == 1:
        time = job.gpu.launch + job.moved / job.gpu.bandwidth
        return [Candidate("single", time, "n is 1", functools.partial(_single, job))]
    return _of_columns(job) if job.view.inner > 1 else _of_rows(job)


def _single(job: SoftmaxJob) -> Plan:
    n = job.view.outer * job.view.inner
    args = (job.x, _OUT, n)
    return job.plan(
        Step(job.kernel("single", job.log), (cdiv(n, BLOCK),), (BLOCK,), args, early=True)
    )


# ---- rows --------------------------------------------------------------------------------------
def _of_rows(job: SoftmaxJob) -> list[Candidate]:
    """Candidates for the last dimension: rows in registers, in shared memory, or read twice."""
    view, gpu, size = job.view, job.gpu, job.itemsize
    made = [] if job.whole else _staged(job)
    chunks = cdiv(view.n, view.vector) + (view.n % view.vector > 0)
    # One SM's rate falls with the size of its loads.
    rate = SM_COPY_BANDWIDTH * view.vector * size / 16
    slow = 1.0 if job.whole else model.RAGGED_ROWS
    all_vectors = model.FORWARD_VECTORS
    for most in (all_vectors, all_vectors // 2):
        threads, vectors, shared = group(chunks, most)
        if shared > all_vectors + 4 or (
            most < all_vectors and (shared or chunks <= 32 * all_vectors)
        ):
            continue
        row = 2 * view.n * size / rate * cdiv(view.outer, gpu.sms * max(1, 1024 // threads))
        time = gpu.launch + max(slow * job.moved / gpu.bandwidth, row)
        why = f"{threads} threads per row, {vectors} vectors of {view.vector} in registers each"
        build = functools.partial(_rows, job, threads, vectors, shared)
        name = "rows" if most == all_vectors else f"rows, {most} vectors per thread"
        made.append(Candidate(name, time, why, build))
    if chunks > model.REREAD_VECTORS:
        resident = min(view.outer, 2 * gpu.sms) * view.n * size
        reading = model.FORWARD_ROWS.time(job.moved, resident / 0.8, gpu)
        row = 3 * view.n * size / rate * cdiv(view.outer, 2 * gpu.sms)
        time = gpu.launch + max(reading, row)
        build = functools.partial(_rows_twice, job)
        made.append(Candidate("rows, twice", time, "one block per row reads it twice", build))
    if (by := cluster_of(view, chunks, size, gpu)) is not None:
        time = gpu.launch + by.time(job.moved)
        build = functools.partial(_cluster_rows, job, by)
        made.append(Candidate("rows in clusters", time, by.why, build))
    parts = parts_of(view, chunks, gpu.sms)
    time = 2 * gpu.launch + model.FORWARD_ROWS.time(job.moved, job.moved, gpu)
    why = f"{parts} blocks per row, two passes"
    return [*made, Candidate("long rows", time, why, functools.partial(_long, job, parts, chunks))]


def _staged(job: SoftmaxJob) -> list[Candidate]:
    """A candidate for planes that are no whole vectors: a block has several in shared memory."""
    view, gpu, size = job.view, job.gpu, job.itemsize
    plane = view.n * view.inner * size
    # Planes that are whole vectors together: other blocks begin behind them.
    step = 16 // math.gcd(plane, 16) if view.outer > 1 else 1
    dense = view.inner > 1 or view.stride == view.n
    room = min(STAGED.most_bytes, gpu.shared_per_block - BLOCK_RESERVED)
    if not dense or view.n > STAGED.elements or step * plane > room:
        return []
    vector = 16 // size
    while job.aligned % (vector * size):
        vector //= 2
    threads = 1
    while threads < 32 and threads * 8 < view.n:
        threads *= 2
    if view.n > 32 * threads:
        threads = BLOCK if view.n <= 32 * BLOCK else STAGED.threads
    elements = next(h for h in (2, 4, 8, 12, 16, 24, 32) if h * threads >= view.n)
    block = max(BLOCK, threads)
    least = cdiv(block, threads * view.inner)
    planes = min(max(STAGED.bytes // plane, least), cdiv(view.outer, 4 * gpu.sms), room // plane)
    planes = min(cdiv(max(1, planes), step) * step, room // plane // step * step)
    # Columns of a block one after the other, and elements of a column that meet in banks.
    waves = cdiv(view.outer, planes * gpu.sms * (gpu.threads_per_sm // block))
    rounds = cdiv(planes * view.inner, block // threads) * waves
    meet = math.gcd(view.inner * size // 4, 32) if view.inner * size % 4 == 0 else 1
    in_flight, latency = model.LOADS
    loads = cdiv(planes * plane, block * vector * size * in_flight) * latency
    busy = rounds * (STAGED.column + elements * min(meet, threads) * STAGED.conflict)
    busy += loads * waves
    # Longer rows are faster in registers, unless they are read element by element.
    slow = view.inner == 1 and plane > STAGED.long_bytes and view.vector > 1
    reading = (STAGED.long_rows if slow else 1.0) * job.moved / gpu.bandwidth
    why = f"{planes} planes per block through shared memory, {threads} threads for a column"

    def build() -> Plan:
        kernel = job.kernel("staged", vector, threads, elements, job.log)
        args = (job.x, _OUT, view.outer, view.n, view.inner, planes)
        return job.plan(
            Step(kernel, (cdiv(view.outer, planes),), (block,), args, planes * plane, early=True)
        )

    name = "staged rows" if view.inner == 1 else "staged columns"
    return [Candidate(name, gpu.launch + max(reading, busy), why, build)]


def _rows(job: SoftmaxJob, threads: int, vectors: int, shared: int) -> Plan:
    view = job.view
    kernel = job.row_kernel("rows", threads, vectors, shared, job.log)
    block = 128 if threads <= 32 else threads
    grid = (cdiv(view.outer, block // threads),)
    memory = shared * threads * packed_bytes(view.vector, job.itemsize)
    args = (job.x, _OUT, view.outer, view.n, view.stride)
    return job.plan(Step(kernel, grid, (block,), args, memory, early=True))


def _rows_twice(job: SoftmaxJob) -> Plan:
    view = job.view
    args = (job.x, _OUT, view.n, view.stride)
    return job.plan(Step(job.row_kernel("rows_twice", job.log), (view.outer,), (512,), args))


def _cluster_rows(job: SoftmaxJob, by: ClusterRows) -> Plan:
    view = job.view
    parameters = (view.vector, job.whole, by.threads, job.log)
    words = source.template("cluster_rows", source.ctype(job.out.dtype), *parameters)
    kernel = source.kernel("softmax/cluster.cu", words)
    args = (job.x, _OUT, view.n, view.stride, by.each)
    grid, cluster = (view.outer * by.blocks,), (by.blocks, 1, 1)
    return job.plan(Step(kernel, grid, (by.threads,), args, by.shared, cluster, early=True))


def _long(job: SoftmaxJob, parts: int, chunks: int) -> Plan:
    view = job.view
    first, second = job.row_kernel("parts_of_rows"), job.row_kernel("finish_rows", job.log)
    blocks = view.outer * parts
    rest = (view.n, view.stride, parts, cdiv(chunks, parts))
    return job.two_passes(first, second, blocks, blocks, rest)


# ---- columns -----------------------------------------------------------------------------------
def _of_columns(job: SoftmaxJob) -> list[Candidate]:
    """Candidates for a dimension that is not the last: one block per column, or several."""
    view, gpu = job.view, job.gpu
    if view.n <= model.SHORT_COLUMN:
        vector = view.vector  # 1 where the tensor is not aligned
        while view.inner % vector:
            vector //= 2
        build = functools.partial(_short_columns, job, vector)
        why = f"a thread holds {vector} columns of {view.n}"
        time = gpu.launch + job.moved / gpu.bandwidth
        return [Candidate("short columns", time, why, build)]
    width, tiles, parts, busy = model.columns_of(view, job.itemsize, gpu)
    reading = model.FORWARD_COLUMNS.time(job.moved, job.moved, gpu)
    why = f"{tiles} blocks, {width} columns each; n is read twice"
    build = functools.partial(_columns, job, width)
    made = [Candidate("columns", gpu.launch + max(reading, busy), why, build)]
    if view.inner < 32:
        made += _staged(job)
    if parts > 1:
        why = f"{parts} blocks per column, two passes"
        build = functools.partial(_long_columns, job, width, parts)
        made.append(Candidate("long columns", 2 * gpu.launch + reading, why, build))
    return made


def _short_columns(job: SoftmaxJob, vector: int) -> Plan:
    view = job.view
    kernel = job.kernel("short_columns", vector, 1 << (view.n - 1).bit_length(), job.log)
    threads = view.outer * view.inner // vector
    args = (job.x, _OUT, view.n, view.inner, threads)
    return job.plan(Step(kernel, (cdiv(threads, BLOCK),), (BLOCK,), args, early=True))


def _columns(job: SoftmaxJob, width: int) -> Plan:
    view = job.view
    tiles = cdiv(view.inner, width)
    args = (job.x, _OUT, view.n, view.inner, width, tiles)
    return job.plan(
        Step(job.kernel("columns", job.log), (view.outer * tiles,), (BLOCK,), args, early=True)
    )


def _long_columns(job: SoftmaxJob, width: int, parts: int) -> Plan:
    view = job.view
    tiles = cdiv(view.inner, width)
    first, second = job.kernel("parts_of_columns"), job.kernel("finish_columns", job.log)
    rest = (view.n, view.inner, width, tiles, parts, cdiv(view.n, parts))
    blocks, sums = view.outer * tiles * parts, view.outer * parts * view.inner
    return job.two_passes(first, second, blocks, sums, rest)
