"""Plan norms of short rows whose elements are apart in memory, without a copy of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from weft.kernels import cdiv
from weft.kernels.structs import LongLong, Struct
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.forward import RowNorm, addresses, epsilon
from weft.ops.families.norm.rows import RowJob, row_job, threads_of

BLOCK = 128
"""Threads of a block; see transposed.cu."""


@dataclass(frozen=True)
class RowStrides(Struct):
    """The places of a tensor's rows and of their elements.

    `inner` rows are `row` elements apart, and then the next ones `outer`.
    """

    inner: LongLong
    outer: LongLong
    row: LongLong
    column: LongLong

    def excess(self, n: int, size: int) -> float:
        """Bytes that are read for each byte of a row of n elements."""
        if self.row == 1:
            return 1.0
        sectors = min(n, cdiv(n * self.column * size, model.SECTOR))
        return max(1.0, sectors * model.SECTOR / (n * size))


def candidates(
    kind: RowNorm, saved: bool, request: Request, n: int, dims: int, outputs: Sequence[Buffer]
) -> list[Candidate]:
    """The candidate for a request with transposed rows; `dims` dimensions are a row."""
    layouts = [x for x in request.inputs[: kind.tensors] if x is not None]
    found = {i: _strides(x, dims) for i, x in enumerate(layouts) if not x.contiguous}
    strided = {i: s for i, s in found.items() if s is not None and s.column != 1}
    if not strided:
        return []
    weights = range(kind.tensors, len(request.inputs))
    made = row_job(
        request, n, range(kind.tensors), weights, outputs, forward=True, in_place=strided
    )
    threads, registers, shared = threads_of(made.chunks, model.FORWARD_VECTORS)
    if made.ragged or threads > model.TRANSPOSED_THREADS or shared:
        return []
    gpu, size = request.target, made.dtype.itemsize
    tensors = float(1 + kind.tensors + kind.added)
    tensors += sum(s.excess(n, size) - 1 for s in strided.values())
    time = made.cost + model.stream_time(gpu, tensors * made.count * n * size)
    why = f"elements of rows are read with their stride, {threads} threads per row"
    dense = [RowStrides(1, 0, made.stride, 1), RowStrides(1, 0, n, 1)]
    strides = [strided.get(i, s) for i, s in enumerate(dense)]
    build = functools.partial(_plan, kind, saved, made, threads, registers, strides, tuple(strided))
    return [Candidate("transposed rows", time, why, build)]


def _strides(x: Layout, dims: int) -> RowStrides | None:
    """The strides of a tensor's rows; None if they are not in two dimensions, evenly apart."""
    at = len(x.shape) - dims
    row = merged(x.shape[at:], [x.strides[at:]])
    batch = merged(x.shape[:at], [x.strides[:at]])
    if len(row.sizes) > 1 or len(batch.sizes) > 2:
        return None
    (column,) = row.strides[0]
    *outer, inner = batch.strides[0]
    return RowStrides(batch.sizes[-1], outer[0] if outer else 0, inner, column)


def _plan(
    kind: RowNorm, saved: bool, made: RowJob, threads: int, registers: int,
    strides: Sequence[RowStrides], strided: tuple[int, ...],
) -> Plan:  # fmt: skip
    flags = (kind.centred, kind.added, *(i in strided for i in range(2)))
    kernel = made.kernel(
        "transposed.cu",
        "transposed_rows",
        threads,
        registers,
        *flags,
        ragged=False,
        defines=RowStrides.define(),
    )
    packed = (s.pack() for s in strides)
    eps = epsilon(made.request)
    args = (*addresses(kind, saved, made), made.count, made.n, *packed, eps)
    return made.plan(Step(kernel, (cdiv(made.count * threads, BLOCK),), (BLOCK,), args, early=True))
