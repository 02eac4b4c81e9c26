"""Plans the join of up to MOST tensors: one launch, in which a block copies a piece of one tensor.

rows      each tensor in the widest vectors, up to 16 bytes, that its rows allow
elements  single elements
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import dense_strides, divisor, memory_order, merged, permuted
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import copying
from weft.ops.families.elementwise.jobs import Strategy
from weft.ops.families.join import model

MOST = 32
"""The most tensors of a launch, whose arguments are limited to 4 KiB."""
BLOCK, EACH = 256, 4
"""Threads of a block, and vectors that each of them copies."""
NARROW = 2**31 - 2**16
"""Elements below which offsets use 32-bit arithmetic."""


class TensorRows(NamedTuple):
    """A tensor as rows of elements.

    x, y     elements from row to row and from element to element, in the tensor and in the result
    aligned  the alignment of the tensor in bytes
    """

    pointer: Pointer
    rows: int
    length: int
    x: tuple[int, int]
    y: tuple[int, int]
    aligned: int

    @property
    def scattered(self) -> bool:
        """True if neighbours in the result are far apart in the tensor."""
        return self.length > 1 and self.x[1] > 1

    @property
    def extent(self) -> int:
        """Elements of the tensor from the first to the last."""
        return (self.rows - 1) * self.x[0] + (self.length - 1) * self.x[1] + 1


class JoinedTensor(NamedTuple):
    """A tensor of a join.

    offset  elements of the result before it
    time    modelled seconds of its part of the launch, by the elements of a vector
    copy    the launch that makes a contiguous tensor of it first; None for most
    """

    part: TensorRows
    offset: int
    time: dict[int, float]
    copy: Strategy | None


def output(tensors: Sequence[Layout], dim: int) -> Buffer:
    """The result: in the memory order that all tensors share, else row-major."""
    shape = list(tensors[0].shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    orders = {memory_order(t) for t in tensors}
    order = orders.pop() if len(orders) == 1 and not all(t.contiguous for t in tensors) else None
    return Buffer(
        tuple(shape), tensors[0].dtype, strides=dense_strides(shape, order) if order else None
    )


def candidates(request: Request) -> list[Candidate]:
    """The candidates of a join, as `Definition.candidates`."""
    tensors = [t for t in request.inputs if t is not None]
    new = request.options["new"]
    dim = request.options["dim"] % (len(tensors[0].shape) + new)
    if new:
        tensors = [_unsqueezed(t, dim) for t in tensors]
    out = output(tensors, dim)
    if 0 in out.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    by_memory = sorted(range(len(out.shape)), key=lambda d: (-out.steps[d], d))
    steps = tuple(out.steps[d] for d in by_memory)
    widths = {"rows": 16 // out.dtype.itemsize, "elements": 1}
    placed: list[JoinedTensor] = []
    offset, free = 0, len(tensors) + 1
    for number, x in enumerate(tensors):
        turned = permuted(x, by_memory)
        placed.append(_placed(turned, steps, offset, number, free, tuple(widths.values()), request))
        offset += x.shape[dim] * out.steps[dim]
        free += placed[-1].copy is not None
    copies = [(p.copy, tensors[i].shape) for i, p in enumerate(placed) if p.copy is not None]
    before = sum(copy.cost for copy, _ in copies)
    why = f"{len(tensors)} tensors, {len(copies)} of them copied first"

    def build(width: int) -> Plan:
        scratch = tuple(Buffer(shape, out.dtype) for _, shape in copies)
        join = _join(placed, out, width)
        return Plan((*(copy.build() for copy, _ in copies), join), (out,), scratch)

    return [
        Candidate(
            name,
            request.target.launch + before + sum(p.time[width] for p in placed),
            why,
            functools.partial(build, width),
        )
        for name, width in widths.items()
    ]


def _unsqueezed(x: Layout, dim: int) -> Layout:
    """A tensor with one more dimension, of size 1 and the stride that torch.unsqueeze gives."""
    step = x.shape[dim] * x.strides[dim] if dim < len(x.shape) else 1
    return x._replace(
        shape=(*x.shape[:dim], 1, *x.shape[dim:]),
        strides=(*x.strides[:dim], step, *x.strides[dim:]),
    )


def _placed(
    x: Layout,
    steps: Sequence[int],
    offset: int,
    number: int,
    free: int,
    widths: Sequence[int],
    request: Request,
) -> JoinedTensor:
    """A tensor as it is, or copied to tensor `free` first, whichever takes less time."""
    if (part := _part(x, steps, Pointer(number))) is not None:
        direct = JoinedTensor(
            part, offset, _times(part, offset, x.itemsize, widths, request.target), None
        )
        if not part.scattered:
            return direct
    start, end = Pointer(number), Pointer(free)
    copy = min(copying(x, start, end, request.target), key=lambda strategy: strategy.cost)
    dense = _part(Layout(x.dtype, x.shape, Buffer(x.shape, x.dtype).steps, 16), steps, end)
    assert dense is not None
    times = _times(dense, offset, x.itemsize, widths, request.target)
    least = min(times.values()) + copy.cost
    if part is not None and min(direct.time.values()) <= least:
        return direct
    return JoinedTensor(dense, offset, times, copy)


def _part(x: Layout, steps: Sequence[int], pointer: Pointer) -> TensorRows | None:
    """A tensor and its place in the result as rows; None if they have more dimensions."""
    if x.numel == 0:
        return TensorRows(pointer, 0, 0, (0, 1), (0, 1), x.aligned)
    walk = merged(x.shape, [x.strides, steps])
    if len(walk.sizes) > 2:
        return None
    rows, length = (1, *walk.sizes)[-2:]
    (x_row, x_step), (y_row, y_step) = ((0, *s)[-2:] for s in walk.strides)
    return TensorRows(pointer, rows, length, (x_row, x_step), (y_row, y_step), x.aligned)


def _times(
    part: TensorRows, offset: int, itemsize: int, widths: Sequence[int], gpu: Target
) -> dict[int, float]:
    """Modelled seconds of a part, by the elements of the widest vector."""
    count = part.rows * part.length
    vectors = {most: _width(part, offset, most, itemsize) > 1 for most in widths}
    return {
        most: model.seconds(gpu, count, itemsize, whole, part.scattered)
        for most, whole in vectors.items()
    }


def _join(placed: Sequence[JoinedTensor], out: Buffer, vector: int) -> Step:
    parts = [p.part for p in placed]
    most = max(math.prod(out.shape), *(p.extent for p in parts))
    bits = 64 if most >= NARROW else 32
    table: list[tuple[int, ...]] = []
    blocks = 0
    for p, offset, _, _ in placed:
        width = _width(p, offset, vector, out.dtype.itemsize)
        chunks = p.length // width
        count = p.rows * chunks
        factors = divisor(max(chunks, 1), bits)
        x_step, y_step = (width, width) if width > 1 else (p.x[1], p.y[1])
        table.append(
            (blocks, count, chunks, *factors, p.x[0], x_step, p.y[0], y_step, offset, width)
        )
        blocks += cdiv(count, BLOCK * EACH)
    letter = "I" if bits == 32 else "Q"
    packed = struct.pack(f"<{sum(map(len, table))}{letter}", *(v for row in table for v in row))
    ctype, index = source.ctype(out.dtype), "int" if bits == 32 else "long long"
    types = ", ".join([ctype, index, str(vector), str(EACH), *[ctype] * len(parts)])
    kernel = source.kernel("join/join.cu", f"join<{types}>")
    args: tuple[Argument, ...] = (Pointer(len(parts)), packed, *(p.pointer for p in parts))
    return Step(kernel, (blocks,), (BLOCK,), args)


def _width(part: TensorRows, offset: int, most: int, itemsize: int) -> int:
    """The widest vector, in elements, that all rows of a tensor and of the result consist of."""
    if (part.x[1], part.y[1]) != (1, 1):
        return 1
    numbers = (part.length, offset, *((part.x[0], part.y[0]) if part.rows > 1 else ()))
    width = most
    while part.aligned % (width * itemsize) or any(n % width for n in numbers):
        width //= 2
    return width
