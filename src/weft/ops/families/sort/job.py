"""Describes what a call sorts: rows of a tensor, their order, and the part of them that is wanted.

The kernels see a tensor as [outer, n, inner] with any strides, along n. `job` finds that view, or
plans a copy that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from weft.kernels.structs import LongLong, Struct
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import dense_strides, memory_order, merged
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import after_copy, contiguous


@dataclass(frozen=True)
class Rows(Struct):
    """Rows of a tensor, and where the sorted ones go. Strides are in elements."""

    rows: LongLong
    inner: Annotated[LongLong, "row = outer * inner + column"]
    n: LongLong
    x_outer: Annotated[LongLong, "strides of the tensor that is sorted"]
    x_inner: LongLong
    x_step: LongLong
    y_outer: Annotated[LongLong, "strides of the results"]
    y_inner: LongLong
    y_step: LongLong
    first: Annotated[LongLong, "the elements of a sorted row that are written"]
    count: LongLong
    descending: LongLong


@dataclass(frozen=True)
class Wanted:
    """The part of the sorted rows that a call returns.

    first, length  elements of each row
    values        None if only indices are wanted
    """

    first: int
    length: int
    values: Buffer | None
    indices: Buffer | None


@dataclass(frozen=True)
class Job:
    """A call: the values shared by all candidates.

    x        the address that kernels read
    values   the address of the sorted elements, None if they are not wanted
    indices  the same for their indices
    outputs  what the call returns
    free     the number of the first free tensor; `scratch` are those before it that are no results
    before   launches that precede the sort
    zeros    bytes of zeros that the caller needs too; radix passes put them first in tensor `free`
    """

    rows: Rows
    dtype: torch.dtype
    gpu: Target
    x: Argument
    values: Argument
    indices: Argument
    outputs: tuple[Buffer, ...]
    free: int
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    zeros: int = 0

    def plan(self, steps: Sequence[Step], scratch: Sequence[Buffer] = ()) -> Plan:
        """A plan of these steps; their buffers are numbered from `free`."""
        return Plan((*self.before, *steps), self.outputs, (*self.scratch, *scratch))


def dense(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Buffer:
    """A result in the memory order of a dense tensor, else in row-major order."""
    order = memory_order(Layout(dtype, tuple(shape), tuple(strides), 16))
    return Buffer(tuple(shape), dtype, strides=dense_strides(shape, order) if order else None)


def candidates(
    request: Request,
    dim: int,
    descending: bool,
    wanted: Wanted,
    of_job: Callable[[Job], list[Candidate]],
) -> list[Candidate]:
    """The candidates of `of_job` for a call that sorts its first tensor along a dimension."""
    x = request.first
    outputs = tuple(b for b in (wanted.values, wanted.indices) if b is not None)
    if 0 in (x.numel, wanted.length):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    number = len(request.inputs)
    values = Pointer(number) if wanted.values else None
    indices = Pointer(number + bool(wanted.values)) if wanted.indices else None
    free = number + len(outputs)
    if (rows := _rows(x, dim, descending, wanted)) is not None:
        job = Job(rows, x.dtype, request.target, Pointer(0), values, indices, outputs, free)
        return of_job(job)
    made = Buffer(x.shape, x.dtype)
    copy = contiguous(x, Pointer(0), Pointer(free), request.target)
    rows = _rows(Layout(x.dtype, x.shape, made.steps, 16), dim, descending, wanted)
    assert rows is not None
    job = Job(
        rows, x.dtype, request.target, Pointer(free), values, indices, outputs, free + 1,
        copy.steps, (made,),
    )  # fmt: skip
    return after_copy(copy, of_job(job))


def _rows(x: Layout, dim: int, descending: bool, wanted: Wanted) -> Rows | None:
    """The rows of a tensor; None if it has more than two dimensions beside them."""
    out = wanted.values or wanted.indices
    assert out is not None
    if not x.shape:
        return Rows(1, 1, 1, 0, 0, 1, 0, 0, 1, wanted.first, wanted.length, descending)
    dim = dim % len(x.shape)
    steps = out.steps if len(out.shape) == len(x.shape) else (*out.steps[:dim], 1, *out.steps[dim:])
    order = sorted((d for d in range(len(x.shape)) if d != dim), key=lambda d: (-steps[d], d))
    walk = merged([x.shape[d] for d in order], [[t[d] for d in order] for t in (x.strides, steps)])
    if len(walk.sizes) > 2:
        return None
    sizes, strides = walk.sizes, walk.strides
    if len(sizes) == 1 and min(strides[0][0], strides[1][0]) < x.strides[dim]:  # columns
        sizes, strides = (1, *sizes), tuple((0, *s) for s in strides)
    outer, inner = (*sizes, 1)[:2]
    (x_outer, x_inner), (y_outer, y_inner) = ((*s, 0)[:2] for s in strides)
    return Rows(outer * inner, inner, x.shape[dim], x_outer, x_inner, x.strides[dim], y_outer,
                y_inner, steps[dim], wanted.first, wanted.length, descending)  # fmt: skip
