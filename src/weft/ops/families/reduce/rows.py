"""Lists the candidates of reductions along neighbours in memory, and of small planes of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.reduce import plans
from weft.ops.families.reduce.model import BLOCK, ROUND, TURNS, WIDE, parts_of, power, seconds
from weft.ops.families.reduce.row import Row
from weft.ops.families.reduce.views import View

STARTING = 500
"""Instructions of a thread beside those for its vectors."""
LIGHT, BYTE, HEAVY = 1.5e-11, 7e-11, 1.1e-10
"""Seconds of an SM for an element, for a byte, and for an operation with a larger state."""
SMALL = 2048
"""The most bytes of a plane that a block reads through shared memory with others."""
STAGED = (0.35e-12, 0.65e-12)
"""Seconds for an element in shared memory: for a byte, and for a longer one."""
MEMORY = 8192
"""Bytes of shared memory for the planes of a block."""
LONG = 512
"""Vectors of a row from which on a block of WIDE threads may have it."""


def of_rows(row: Row, request: Request, view: View, make: Callable[..., Plan]) -> list[Candidate]:
    """Candidates for rows: a group of threads for each, or several blocks."""
    gpu, dtype = request.target, request.first.dtype
    moved = view.outer * view.n * dtype.itemsize
    wide = 16 // dtype.itemsize
    chunks = cdiv(view.n, wide)
    work = HEAVY if row.name in plans.STATE else BYTE if dtype.itemsize == 1 else LIGHT
    each = view.outer * view.n * work
    ways = []
    for threads in _groups(chunks):
        size = max(BLOCK, threads)
        blocks = cdiv(view.outer, size // threads)
        # A row takes whole vectors, and one more where it is not aligned.
        read = moved if chunks > 4 else view.outer * (chunks + 1) * 16
        for parts in parts_of(view.outer, chunks, gpu) if threads == BLOCK else (1,):
            turns = cdiv(chunks, threads * parts * TURNS) * ROUND
            waves = cdiv(blocks * parts, gpu.threads // size)
            working = each / min(gpu.sms, blocks * parts)
            starting = view.outer * threads * parts * STARTING / (gpu.fp32 / 2)
            busy = max(read / gpu.bandwidth, turns * waves, working, starting)
            time = seconds(gpu, busy, parts > 1)
            name = f"{threads} threads per row" + (f", {parts} blocks" if parts > 1 else "")
            why = f"{blocks * parts} blocks read {moved:,} bytes"
            ways.append(Candidate(name, time, why, functools.partial(make, wide, threads, parts)))
    return ways


def _groups(chunks: int) -> list[int]:
    """Options for threads per row: about four vectors per thread."""
    if chunks > 64:
        return [32, BLOCK, *([WIDE] if chunks >= LONG else [])]
    wanted = 1
    while wanted * 4 < chunks and wanted < 32:
        wanted *= 2
    return [wanted]


def of_small_planes(
    row: Row, request: Request, view: View, out: Buffer, x: Pointer, aligned: int,
    before: tuple[Step, ...],
) -> list[Candidate]:  # fmt: skip
    """A candidate for planes of a few neighbours without gaps, which a block reads as they are."""
    gpu, itemsize = request.target, request.first.itemsize
    size = view.n * view.inner * itemsize
    dense = view.row_stride == view.inner and view.outer_stride == view.n * view.inner
    if not 0 < size <= SMALL or not dense:
        return []
    vector = 16 // itemsize
    while aligned % (vector * itemsize):
        vector //= 2
    step = 16 // math.gcd(size, 16)  # planes that are whole vectors together
    planes = min(max(1, MEMORY // size), cdiv(view.outer, 4 * gpu.sms))
    planes = cdiv(planes, step) * step
    deep = min(32, BLOCK // min(BLOCK, power(planes * view.inner)), power(view.n) // 2)
    # Threads read at a distance of a plane: banks that they share make them wait.
    conflicts = max(1.0, math.gcd(size // 4, 32) / view.inner) if size % 4 == 0 else 1.0
    moved = view.outer * (size + view.inner * out.dtype.itemsize)
    elements = view.outer * view.n * view.inner
    each = STAGED[itemsize > 1] * conflicts
    time = seconds(gpu, max(moved / gpu.bandwidth, each * elements))
    why = f"{cdiv(view.outer, planes)} blocks read {moved:,} bytes through shared memory"
    build = functools.partial(
        plans.small_planes, row, request, view, out, x, before, vector, max(1, deep), planes
    )
    name = "short rows" if view.inner == 1 else "small planes"
    return [Candidate(name, time, why, build)]
