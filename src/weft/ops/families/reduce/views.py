"""Describes tensors for the kernels of reductions: where the reduced and the kept elements are."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from weft.ops.core.layouts import Walk, divisor, merged
from weft.ops.core.plan import Buffer, Layout

MOST_DIMS = 5
"""Dimensions of the struct Dims of reduce.cu."""


@dataclass(frozen=True)
class View:
    """A tensor as [outer, n, inner], reduced along n; neighbours of `inner` are adjacent.

    outer_stride, row_stride    of x; with inner 1, rows are `outer_stride` apart
    outer_result, inner_result  the strides of the result
    """

    outer: int
    n: int
    inner: int
    outer_stride: int
    row_stride: int
    outer_result: int
    inner_result: int

    @property
    def packed(self) -> bytes:
        """The struct `Planes` of reduce.cu."""
        return struct.pack(
            "<4q", self.outer_stride, self.row_stride, self.outer_result, self.inner_result
        )


def dense_rows(rows: int, n: int) -> View:
    """Rows without gaps."""
    return View(rows, n, 1, n, 1, 1, 0)


def view_of(x: Layout, dims: Sequence[int], ordered: bool) -> View | None:
    """The view for the kernels; None if only strided accesses or a copy serve.

    The reduced dimensions are read in the order of memory, unless the result is a place.
    """
    kept = [d for d in range(len(x.shape)) if d not in dims]
    if not ordered:
        dims = sorted(dims, key=lambda d: -x.strides[d])
    inside = merged([x.shape[d] for d in dims], [[x.strides[d] for d in dims]])
    if len(inside.sizes) > 1:
        return None
    n, step = inside.sizes[0], inside.strides[0][0]
    outside = kept_dims(x, kept)
    steps, results = outside.strides
    if step == 1 and len(outside.sizes) == 1 and results[0] in (0, 1):
        rows = outside.sizes[0]
        return View(rows, n, 1, steps[0] if rows > 1 else n, 1, 1, 0)
    if steps[-1] != 1 or len(outside.sizes) > 2 or step == 0:
        return None
    (*outer, inner), first = outside.sizes, len(outside.sizes) - 1
    if first == 0:
        return View(1, n, inner, 0, step, 0, results[0])
    return View(outer[0], n, inner, steps[0], step, results[0], results[1])


def kept_dims(x: Layout, kept: Sequence[int]) -> Walk:
    """The dimensions that remain in the order of memory, with the strides of x and the result."""
    results = dict(zip(kept, Buffer(tuple(x.shape[d] for d in kept), x.dtype).steps, strict=True))
    order = sorted(kept, key=lambda d: -x.strides[d])  # neighbouring threads read neighbours
    strides = [[x.strides[d] for d in order], [results[d] for d in order]]
    return merged([x.shape[d] for d in order], strides)


@dataclass(frozen=True)
class Walks:
    """A strided tensor: its kept and its reduced dimensions, outermost first.

    kept   with the strides of x and of the result
    along  are neighbours in memory along the reduced dimensions?
    """

    kept: Walk
    reduced: Walk
    along: bool

    @property
    def n(self) -> int:
        return math.prod(self.reduced.sizes)

    @property
    def rows(self) -> int:
        return math.prod(self.kept.sizes)

    def packed(self) -> bytes:
        """The struct `Strided` of reduce.cu."""
        x, y = self.kept.strides
        walks = (
            (self.kept.sizes, x),
            (self.reduced.sizes, self.reduced.strides[0]),
            (self.kept.sizes, y),
        )
        return b"".join(_dims(sizes, strides) for sizes, strides in walks)


def _dims(sizes: Sequence[int], strides: Sequence[int]) -> bytes:
    """The struct `Dims` of reduce.cu."""
    factors = [divisor(size, 32) for size in sizes]
    magic, shift = _filled([f[0] for f in factors], 0), _filled([f[1] for f in factors], 0)
    numbers = (*_filled(sizes, 1), *magic, *shift)
    return struct.pack("<i15I5q", len(sizes), *numbers, *_filled(strides, 0))


def _filled(values: Sequence[int], rest: int) -> list[int]:
    return [*values, *[rest] * (MOST_DIMS - len(values))]
