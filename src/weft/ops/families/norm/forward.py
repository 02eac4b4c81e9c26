"""Plan norms of rows: layer norm, RMS norm and group norm, forward."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.cluster_rows import ClusterRows, cluster_of
from weft.ops.core.invariant import ROWS
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.core.rows import View
from weft.ops.families.norm import model
from weft.ops.families.norm.rows import BLOCK, RowJob, RowStrategy, parts_of, threads_of

ORDER = "rows"
"""The order of sums of rows that have the same threads in every batch."""
LONG_ORDER = "long rows"
"""That of rows that have the same blocks in every batch."""


@dataclass(frozen=True)
class RowNorm:
    """A norm of rows.

    centred  the mean is subtracted, and there is a bias
    added    the rows are a sum of two tensors, which is returned as well
    """

    name: str
    centred: bool
    added: bool

    @property
    def tensors(self) -> int:
        """The tensors of rows that come in."""
        return 1 + self.added


def candidates(kind: RowNorm, saved: bool, made: RowJob) -> list[Candidate]:
    """The candidates for a job; `saved`: the last outputs are the statistics."""
    gpu, size = made.request.target, made.dtype.itemsize
    elements = made.count * made.n
    moved = (1 + kind.tensors + kind.added) * elements * size
    found = []
    threads, registers, shared = _threads(kind, _counted(made))
    if _memory(made, threads, shared) <= _room(made):
        strategy = _strategy(kind, made, threads, registers, shared)
        time = made.cost + model.row_time(made, strategy, moved)
        why = f"{threads} threads per row, {registers} vectors of {made.vector} in registers each"
        build = functools.partial(rows, kind, saved, made, strategy)
        found.append(Candidate("rows", time, why, build, ORDER))
    if not kind.added and not made.inner and (by := _clusters(made)) is not None:
        time = made.cost + gpu.launch + by.time(moved)
        build = functools.partial(_cluster_rows, kind, saved, made, by)
        found.append(Candidate("rows in clusters", time, by.why, build))
    parts = parts_of(_counted(made))
    time = made.cost + model.two_pass_time(gpu, moved, elements * size, moved, launches=2)
    why = f"{parts} blocks per row, two passes"
    build = functools.partial(long_rows, kind, saved, made, parts)
    return [*found, Candidate("long rows", time, why, build, LONG_ORDER)]


def _counted(made: RowJob) -> RowJob:
    """The job by which the threads of a row are chosen."""
    return replace(made, count=ROWS) if made.request.invariant else made


def _threads(kind: RowNorm, made: RowJob) -> tuple[int, int, int]:
    """As `threads_of`, and more threads where rows are few: their loads take the time."""
    threads, registers, shared = threads_of(made.chunks, model.FORWARD_VECTORS)
    sms = made.request.target.sms
    alone = made.count < sms  # an SM has one row
    most = min(model.FEW_BLOCK[alone], model.FEW_THREADS * sms // made.count)
    while 2 * threads <= most and registers > _vectors(alone or kind.added, threads):
        threads *= 2
        registers, shared = cdiv(made.chunks, threads), 0
    # Vectors of a residual take as many registers again.
    if kind.added and not shared and registers > model.FEW_VECTORS and threads < 512:
        threads, registers = 2 * threads, cdiv(made.chunks, 2 * threads)
    return threads, registers, shared


def _vectors(long: bool, threads: int) -> int:
    """Vectors of a thread that are worth no more threads: a warp needs no barriers.

    long  the instructions of a thread take as long as its loads
    """
    return 1 if long else model.FEW_VECTORS if threads <= 32 else 2


def _is_few(kind: RowNorm, made: RowJob, threads: int) -> bool:
    """True if rows leave threads of the GPU without work, and wait for weights in registers."""
    sms = made.request.target.sms
    waits = kind.added or threads > 32 or made.count < sms
    most = model.FEW_THREADS if waits else model.FEW_WARP_THREADS
    return made.count * threads <= most * sms


def _memory(made: RowJob, threads: int, shared: int) -> int:
    """Bytes of shared memory for so many vectors of each thread."""
    return shared * threads * made.vector * int(made.dtype.itemsize)


def _room(made: RowJob) -> int:
    return made.request.target.shared_per_block - model.SPARE_SHARED


def _strategy(
    kind: RowNorm, made: RowJob, threads: int, registers: int, shared: int
) -> RowStrategy:
    """The strategy that was measured to be the fastest for so many vectors of a row."""
    held = not (made.inner or shared) and registers <= model.FEW_VECTORS
    if held and _is_few(kind, made, threads):
        return RowStrategy(threads, registers, 0, max(1, 2048 // max(threads, 128)))
    if made.ragged or kind.added or made.inner:
        # Weights that no vector holds are read one by one: once per block instead of once per row.
        size = registers * made.vector * made.weight.itemsize
        cached = made.ragged and not made.inner and not shared and size <= model.WEIGHT_BYTES
        resident = max(1, 1024 // max(threads, 128)) if cached else 0
        return RowStrategy(threads, registers, shared, resident)
    if threads == 1024:  # one block has an SM, so its next row must be on its way
        moved = 4 if _memory(made, threads, shared + 4) <= _room(made) else 0
        return RowStrategy(threads, registers - moved, shared + moved, 1, prefetch=True)
    if threads == 512 and registers == 8 and not shared and not kind.centred:
        return RowStrategy(threads, 4, 4)  # copies to shared memory need no registers
    return RowStrategy(threads, registers, shared)


def addresses(kind: RowNorm, saved: bool, made: RowJob) -> tuple[Any, ...]:
    """The arguments: x, the residual, w, b, y, the sum, mean and rstd."""
    weights = made.inputs[kind.tensors :]
    at = kind.tensors
    return (
        made.inputs[0],
        made.inputs[1] if kind.added else None,
        weights[0],
        weights[1] if kind.centred else None,
        made.output(0),
        made.output(1) if kind.added else None,
        made.output(at) if saved and kind.centred else None,
        made.output(at + kind.centred) if saved else None,
    )


def rows(kind: RowNorm, saved: bool, made: RowJob, strategy: RowStrategy) -> Plan:
    """One launch: rows stay on chip."""
    threads, registers, shared, resident, prefetch, _ = strategy
    kernel = made.kernel(
        "rows.cu", "rows", threads, registers, shared, kind.centred, kind.added,
        resident > 0 and not prefetch, made.inner > 0, prefetch,
    )  # fmt: skip
    memory = _memory(made, threads, shared)
    rest = (made.count, made.n, made.stride, epsilon(made.request), made.inner, made.groups)
    args = (*addresses(kind, saved, made), *rest)
    return made.plan(
        Step(kernel, (strategy.grid(made),), (strategy.block,), args, memory, early=True)
    )


def _clusters(made: RowJob) -> ClusterRows | None:
    view = View(made.count, made.n, 1, made.stride, made.vector)
    return cluster_of(view, made.chunks, int(made.dtype.itemsize), made.request.target)


def _cluster_rows(kind: RowNorm, saved: bool, made: RowJob, by: ClusterRows) -> Plan:
    """One launch: the blocks of a cluster have a row on chip."""
    x, _, w, b, y, _, mean, rstd = addresses(kind, saved, made)
    kernel = made.kernel("cluster.cu", "cluster_rows", by.threads, kind.centred)
    args = (x, w, b, y, mean, rstd, made.n, made.stride, epsilon(made.request), by.each)
    grid, cluster = (made.count * by.blocks,), (by.blocks, 1, 1)
    return made.plan(Step(kernel, grid, (by.threads,), args, by.shared, cluster, early=True))


def long_rows(kind: RowNorm, saved: bool, made: RowJob, parts: int) -> Plan:
    """Two launches, with several blocks for a row."""
    each = cdiv(made.chunks, parts)
    x, added, w, b, y, total, mean, rstd = addresses(kind, saved, made)
    found = made.extra(0)
    one = made.kernel("rows.cu", "parts_of_rows", kind.centred, kind.added, weights=False)
    two = made.kernel("rows.cu", "finish_rows", kind.centred, made.inner > 0)
    summed, stride = (total, made.n) if kind.added else (x, made.stride)
    eps, grid = epsilon(made.request), (made.count * parts,)
    steps = (
        Step(one, grid, (BLOCK,), (x, added, total, found, made.n, made.stride, parts, each)),
        Step(
            two, grid, (BLOCK,),
            (summed, w, b, y, mean, rstd, found, made.n, stride, eps, parts, each,
             made.inner, made.groups),
        ),
    )  # fmt: skip
    return made.plan(*steps, scratch=(Buffer((made.count * parts, 3), torch.float32),))


def epsilon(request: Request) -> float:
    """The option eps; by default that of float, in which all is computed."""
    eps = request.options["eps"]
    return torch.finfo(torch.float32).eps if eps is None else float(eps)
