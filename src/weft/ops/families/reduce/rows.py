"""The candidates of reductions along neighbours in memory, and of small planes of them."""

from __future__ import annotations

import functools
import math

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate
from weft.ops.families.reduce import model, plans
from weft.ops.families.reduce.model import BLOCK, parts_of, power, seconds
from weft.ops.families.reduce.plans import ReductionJob
from weft.ops.families.reduce.views import Walks


def of_rows(job: ReductionJob, walks: Walks | None = None) -> list[Candidate]:
    """Candidates for rows: a group of threads for each, or several blocks."""
    view, gpu, dtype = job.view, job.request.target, job.request.first.dtype
    moved = view.outer * view.n * dtype.itemsize
    wide = 16 // dtype.itemsize
    chunks = cdiv(view.n, wide)
    work = model.element_time(dtype.itemsize, job.op.name in plans.STATE)
    each = view.outer * view.n * work
    found = []
    for threads in _groups(chunks):
        size = max(BLOCK, threads)
        blocks = cdiv(view.outer, size // threads)
        # A row takes whole vectors, and one more where it is not aligned.
        read = moved if chunks > 4 else view.outer * (chunks + 1) * 16
        for parts in parts_of(view.outer, chunks, gpu) if threads == BLOCK else (1,):
            turns = cdiv(chunks, threads * parts * model.LOADS_IN_FLIGHT) * model.LOAD_LATENCY
            waves = cdiv(blocks * parts, gpu.threads // size)
            working = each / min(gpu.sms, blocks * parts)
            starting = view.outer * threads * parts * model.ROW_INSTRUCTIONS / (gpu.fp32 / 2)
            busy = max(read / gpu.bandwidth, turns * waves, working, starting)
            time = seconds(gpu, busy, parts > 1)
            name = f"{threads} threads per row" + (f", {parts} blocks" if parts > 1 else "")
            why = f"{blocks * parts} blocks read {moved:,} bytes"
            found.append(
                Candidate(
                    name,
                    time,
                    why,
                    functools.partial(plans.reduced, job, wide, threads, parts, walks),
                )
            )
    return found


def _groups(chunks: int) -> list[int]:
    """Options for threads per row: about four vectors per thread."""
    if chunks > 64:
        return [32, BLOCK, *([model.WIDE_BLOCK] if chunks >= model.WIDE_ROW else [])]
    wanted = 1
    while wanted * 4 < chunks and wanted < 32:
        wanted *= 2
    return [wanted]


def of_lines(job: ReductionJob, walks: Walks) -> list[Candidate]:
    """Candidates for rows of several lines of neighbours with gaps between them."""
    gpu, dtype, length = job.request.target, job.request.first.dtype, walks.reduced.sizes[-1]
    wide = 16 // dtype.itemsize
    chunks, count = cdiv(length, wide), walks.n // length
    if walks.reduced.strides[0][-1] != 1 or chunks < model.LINE_VECTORS:
        return []
    moved = walks.rows * walks.n * dtype.itemsize
    each = walks.rows * walks.n * model.element_time(dtype.itemsize, job.op.name in plans.STATE)
    found = []
    for threads in (32, BLOCK) if chunks > 64 else (32,):
        together = BLOCK // threads
        for parts in parts_of(walks.rows, count, gpu, least=together, wanted=(4, 8)):
            rounds = cdiv(count, together * parts)
            rounds *= cdiv(chunks, threads * model.LOADS_IN_FLIGHT)
            blocks = walks.rows * parts
            waves = cdiv(blocks, gpu.threads // BLOCK)
            working = each / min(gpu.sms, blocks)
            busy = max(moved / gpu.bandwidth, rounds * model.LOAD_LATENCY * waves, working)
            name = f"{threads} threads per line" + (f", {parts} blocks" if parts > 1 else "")
            why = f"{blocks} blocks read {count} lines of {length} elements for each result"
            build = functools.partial(plans.lines, job, wide, threads, parts, walks)
            found.append(Candidate(name, seconds(gpu, busy, parts > 1), why, build))
    return found


def of_small_planes(job: ReductionJob) -> list[Candidate]:
    """A candidate for planes of a few neighbours without gaps, which a block reads as they are."""
    view, gpu, itemsize = job.view, job.request.target, job.request.first.itemsize
    size = view.n * view.inner * itemsize
    dense = view.row_stride == view.inner and view.outer_stride == view.n * view.inner
    if not 0 < size <= model.PLANE_BYTES or not dense:
        return []
    vector = 16 // itemsize
    while job.aligned % (vector * itemsize):
        vector //= 2
    step = 16 // math.gcd(size, 16)  # planes that are whole vectors together
    planes = min(max(1, model.PLANES_BYTES // size), cdiv(view.outer, 4 * gpu.sms))
    planes = cdiv(planes, step) * step
    deep = min(32, BLOCK // min(BLOCK, power(planes * view.inner)), power(view.n) // 2)
    # Threads read at a distance of a plane: banks that they share make them wait.
    conflicts = max(1.0, math.gcd(size // 4, 32) / view.inner) if size % 4 == 0 else 1.0
    moved = view.outer * (size + view.inner * job.out.dtype.itemsize)
    elements = view.outer * view.n * view.inner
    each = (model.STAGED_TIME if itemsize > 1 else model.STAGED_BYTE_TIME) * conflicts
    time = seconds(gpu, max(moved / gpu.bandwidth, each * elements))
    why = f"{cdiv(view.outer, planes)} blocks read {moved:,} bytes through shared memory"
    build = functools.partial(plans.small_planes, job, vector, max(1, deep), planes)
    name = "short rows" if view.inner == 1 else "small planes"
    return [Candidate(name, time, why, build)]
