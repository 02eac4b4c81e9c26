"""Plan work along one dimension: the view of a tensor, and the threads that share a row."""

from __future__ import annotations

from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Layout

BLOCK = 256
"""Threads of a block, for rows that several blocks share, and for columns."""


@dataclass(frozen=True)
class View:
    """A tensor as [outer, n, inner], with work along n; rows are `stride` elements apart."""

    outer: int
    n: int
    inner: int
    stride: int
    vector: int


def view_of(x: Layout, dim: int) -> View | None:
    """The view for the kernels; None if the tensor must be copied first."""
    shape = x.shape or (1,)
    dim = dim % len(shape)
    outer, n, inner = 1, shape[dim], 1
    for size in shape[:dim]:
        outer *= size
    for size in shape[dim + 1 :]:
        inner *= size
    wide = 16 // x.itemsize
    if x.contiguous:
        # Most vectors would cross the end of a short row.
        short = inner == 1 and n % wide and n < 4 * wide
        return View(outer, n, inner, n, wide if x.aligned == 16 and not short else 1)
    outside = merged(shape[:dim], [x.strides[:dim]])
    if n > 1 and inner == 1 and x.strides[dim] == 1 and len(outside.sizes) == 1:  # rows with gaps
        stride = outside.strides[0][0]
        whole = x.aligned == 16 and stride % wide == 0 and n % wide == 0
        return View(outer, n, 1, stride, wide if whole else 1)
    return None


def group(chunks: int, most: int) -> tuple[int, int, int]:
    """(threads per row, vectors per thread in registers, vectors per thread in shared memory)."""
    per_thread = 4 if chunks <= 128 else most
    threads = 1
    while threads * per_thread < chunks and threads < 1024:
        threads *= 2
    registers = 1
    while registers < min(most, cdiv(chunks, threads)):
        registers *= 2
    return threads, registers, max(0, cdiv(chunks, threads) - registers)


def packed_bytes(vector: int, itemsize: int) -> int:
    """Bytes of a `Packed` vector (weft/packed.cuh), which has whole words of 32 bits."""
    return max(4, vector * itemsize)


def parts_of(view: View, chunks: int, sms: int) -> int:
    """Blocks for a row: enough to fill the GPU, each with at least 8 vectors per thread."""
    wanted = cdiv(8 * sms, view.outer)
    return max(1, min(wanted, cdiv(chunks, 8 * BLOCK)))
