"""Tensors as the kernels of reductions read them: places of reduced and remaining elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct, Unsigned, array, defines
from weft.ops.core.layouts import Walk, divisor, merged
from weft.ops.core.plan import Buffer, Layout

MOST_DIMS = 5
"""The most dimensions of strided tensors."""


@dataclass(frozen=True)
class PlaneStrides(Struct):
    """The strides of planes of rows, and of the results."""

    outer_stride: LongLong
    row_stride: LongLong
    outer_result: LongLong
    inner_result: LongLong


@dataclass(frozen=True)
class Dims(Struct):
    """Dimensions, outermost first, with the numbers that divide by their sizes."""

    rank: Int
    size: Annotated[tuple[int, ...], array(Int, MOST_DIMS)]
    magic: Annotated[tuple[int, ...], array(Unsigned, MOST_DIMS)]
    shift: Annotated[tuple[int, ...], array(Int, MOST_DIMS)]
    stride: Annotated[tuple[int, ...], array(LongLong, MOST_DIMS)]


@dataclass(frozen=True)
class StridedDims(Struct):
    """A strided tensor; what remains of it is written to `written` of the result."""

    remaining: Dims
    reduced: Dims
    written: Dims


STRUCTS = defines(PlaneStrides, StridedDims)
"""The macros of reduce.cu."""


@dataclass(frozen=True)
class ReductionView:
    """A tensor as [outer, n, inner], reduced along n; neighbours of `inner` are adjacent.

    outer_stride, row_stride    of x; with inner 1, rows are `outer_stride` apart
    outer_result, inner_result  the strides of the result
    """

    outer: int
    n: int
    inner: int
    outer_stride: int = 0
    row_stride: int = 0
    outer_result: int = 0
    inner_result: int = 0

    @property
    def packed(self) -> bytes:
        """The struct for a kernel."""
        strides = (self.outer_stride, self.row_stride, self.outer_result, self.inner_result)
        return PlaneStrides(*strides).pack()


def dense_rows(rows: int, n: int) -> ReductionView:
    """Rows without gaps."""
    return ReductionView(rows, n, 1, outer_stride=n, row_stride=1, outer_result=1)


def view_of(x: Layout, dims: Sequence[int], ordered: bool) -> ReductionView | None:
    """The view for the kernels; None if only strided accesses or a copy serve.

    The reduced dimensions are read in the order of memory, unless the result is a place.
    """
    remaining = [d for d in range(len(x.shape)) if d not in dims]
    if not ordered:
        dims = sorted(dims, key=lambda d: -x.strides[d])
    inside = merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    if len(inside.sizes) > 1:
        return None
    n, step = inside.sizes[0], inside.strides[0][0]
    outside = remaining_dims(x, remaining)
    steps, results = outside.strides
    if step == 1 and len(outside.sizes) == 1 and results[0] in (0, 1):
        rows = outside.sizes[0]
        stride = steps[0] if rows > 1 else n
        return ReductionView(rows, n, 1, outer_stride=stride, row_stride=1, outer_result=1)
    if steps[-1] != 1 or len(outside.sizes) > 2 or step == 0:
        return None
    (*outer, inner), first = outside.sizes, len(outside.sizes) - 1
    if first == 0:
        return ReductionView(1, n, inner, row_stride=step, inner_result=results[0])
    return ReductionView(outer[0], n, inner, steps[0], step, results[0], results[1])


def remaining_dims(x: Layout, remaining: Sequence[int]) -> Walk:
    """The dimensions that remain in the order of memory, with the strides of x and the result."""
    results = dict(
        zip(remaining, Buffer(tuple(x.shape[d] for d in remaining), x.dtype).steps, strict=True)
    )
    order = sorted(remaining, key=lambda d: -x.strides[d])  # neighbouring threads read neighbours
    strides = [[x.strides[d] for d in order], [results[d] for d in order]]
    return merged([x.shape[d] for d in order], strides)


@dataclass(frozen=True)
class Walks:
    """A strided tensor: the dimensions that remain and the reduced ones, outermost first.

    remaining  with the strides of x and of the result
    along      True if neighbours in memory are along the reduced dimensions
    """

    remaining: Walk
    reduced: Walk
    along: bool

    @property
    def n(self) -> int:
        return math.prod(self.reduced.sizes)

    @property
    def rows(self) -> int:
        return math.prod(self.remaining.sizes)

    def packed(self) -> bytes:
        """The struct for a kernel."""
        x, y = self.remaining.strides
        reduced = _dims(self.reduced.sizes, self.reduced.strides[0])
        sizes = self.remaining.sizes
        return StridedDims(_dims(sizes, x), reduced, _dims(sizes, y)).pack()


def _dims(sizes: Sequence[int], strides: Sequence[int]) -> Dims:
    factors = [divisor(size, 32) for size in sizes]
    magic, shift = _filled([f[0] for f in factors], 0), _filled([f[1] for f in factors], 0)
    return Dims(len(sizes), _filled(sizes, 1), magic, shift, _filled(strides, 0))


def _filled(values: Sequence[int], rest: int) -> tuple[int, ...]:
    return (*values, *[rest] * (MOST_DIMS - len(values)))
