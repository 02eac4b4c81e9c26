"""Plans norms of short rows whose elements are apart in memory, without a copy of them."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Buffer, Layout, Plan, Step
from weft.ops.families.norm.forward import HELD, Kind, addresses, epsilon
from weft.ops.families.norm.rows import Job, group, job

BLOCK = 128
MOST = 4
"""The most threads of a row: with more, the neighbours that read together are few rows."""
SECTOR = 32
"""Bytes of a memory access."""


class Turn(NamedTuple):
    """Where the rows of a tensor are: struct Turn of the kernel, in elements."""

    inner: int
    outer: int
    row: int
    column: int

    def excess(self, n: int, size: int) -> float:
        """Bytes that are read for each byte of a row of n elements."""
        if self.row == 1:
            return 1.0
        sectors = min(n, cdiv(n * self.column * size, SECTOR))
        return max(1.0, sectors * SECTOR / (n * size))


def candidates(
    kind: Kind, saved: bool, request: Request, n: int, dims: int, outputs: Sequence[Buffer]
) -> list[Candidate]:
    """The candidate for a request with turned tensors of rows; `dims` dimensions are a row."""
    layouts = [x for x in request.inputs[: kind.tensors] if x is not None]
    turns = {i: _turn(x, dims) for i, x in enumerate(layouts) if not x.contiguous}
    kept = {i: turn for i, turn in turns.items() if turn is not None and turn.column != 1}
    if not kept:
        return []
    weights = range(kind.tensors, len(request.inputs))
    made = job(request, n, range(kind.tensors), weights, outputs, forward=True, kept=kept)
    threads, held, shared = group(made.chunks, HELD)
    if made.ragged or threads > MOST or shared:
        return []
    gpu, size = request.target, made.dtype.itemsize
    tensors = float(1 + kind.tensors + kind.added)
    tensors += sum(turn.excess(n, size) - 1 for turn in kept.values())
    time = made.cost + gpu.launch + tensors * made.count * n * size / gpu.bandwidth
    why = f"elements of rows are read where they are, {threads} threads per row"
    dense = [Turn(1, 0, made.stride, 1), Turn(1, 0, n, 1)]
    by = [kept.get(i, turn) for i, turn in enumerate(dense)]
    build = functools.partial(_plan, kind, saved, made, threads, held, by, tuple(kept))
    return [Candidate("turned rows", time, why, build)]


def _turn(x: Layout, dims: int) -> Turn | None:
    """Where the rows of a tensor are; None if they are not in two dimensions, evenly apart."""
    at = len(x.shape) - dims
    row = merged(x.shape[at:], [x.strides[at:]])
    batch = merged(x.shape[:at], [x.strides[:at]])
    if len(row.sizes) > 1 or len(batch.sizes) > 2:
        return None
    (column,) = row.strides[0]
    *outer, inner = batch.strides[0]
    return Turn(batch.sizes[-1], outer[0] if outer else 0, inner, column)


def _plan(
    kind: Kind, saved: bool, made: Job, threads: int, held: int, by: Sequence[Turn],
    kept: tuple[int, ...],
) -> Plan:  # fmt: skip
    flags = (kind.centred, kind.added, *(i in kept for i in range(2)))
    kernel = made.kernel("turned.cu", "turned_rows", threads, held, *flags, ragged=False)
    turns = (struct.pack("<4q", *turn) for turn in by)
    eps = epsilon(made.request)
    args = (*addresses(kind, saved, made), made.count, made.n, *turns, eps)
    return made.plan(Step(kernel, (cdiv(made.count * threads, BLOCK),), (BLOCK,), args))
