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
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.join import model

MOST = 32
"""The most tensors of a launch, whose arguments are limited to 4 KiB."""
BLOCK, EACH = 256, 4
"""Threads of a block, and vectors that each of them copies."""
NARROW = 2**31 - 2**16
"""Elements below which offsets use 32-bit arithmetic."""


class Part(NamedTuple):
    """A tensor as rows of `length` adjacent elements, which are `pitch` elements apart."""

    pointer: Pointer
    rows: int
    length: int
    pitch: int
    aligned: int


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
    turned = [permuted(t, by_memory) for t in tensors]
    at = by_memory.index(dim)
    wide = 16 // out.dtype.itemsize
    return [
        _candidate(request, turned, at, out, vector, name)
        for vector, name in ((wide, "rows"), (1, "elements"))
    ]


def _unsqueezed(x: Layout, dim: int) -> Layout:
    """A tensor with one more dimension, of size 1 and the stride that torch.unsqueeze gives."""
    step = x.shape[dim] * x.strides[dim] if dim < len(x.shape) else 1
    return x._replace(
        shape=(*x.shape[:dim], 1, *x.shape[dim:]),
        strides=(*x.strides[:dim], step, *x.strides[dim:]),
    )


def _candidate(
    request: Request, tensors: Sequence[Layout], dim: int, out: Buffer, vector: int, name: str
) -> Candidate:
    size, sizes = out.dtype.itemsize, [t.numel for t in tensors]
    whole = [t.numel for t in tensors if math.prod(t.shape[dim:]) % vector == 0]
    time = model.seconds(request.target, sum(sizes) * size, sum(whole) * size * (vector > 1))
    copies = sum(_rows(t, dim) is None for t in tensors)
    time += copies * (request.target.launch + 2 * max(sizes) * size / request.target.bandwidth)
    why = f"{len(tensors)} tensors, {copies} of them copied first"
    build = functools.partial(_plan, request, tensors, dim, out, vector)
    return Candidate(name, time, why, build)


def _rows(x: Layout, dim: int) -> tuple[int, int] | None:
    """(rows, elements between them) of a tensor; None if it is no rows of adjacent elements."""
    inner = Layout(x.dtype, x.shape[dim:], x.strides[dim:], x.aligned)
    outer = merged(x.shape[:dim], [x.strides[:dim]])
    if x.numel == 0:
        return 0, 0
    if not inner.contiguous or len(outer.sizes) > 1:
        return None
    return outer.sizes[0], outer.strides[0][0]


def _plan(request: Request, tensors: Sequence[Layout], dim: int, out: Buffer, vector: int) -> Plan:
    parts: list[Part] = []
    steps: list[Step] = []
    scratch: list[Buffer] = []
    for number, x in enumerate(tensors):
        rows, length = math.prod(x.shape[:dim]), math.prod(x.shape[dim:])
        found, pointer = _rows(x, dim), Pointer(number)
        if found is not None:
            parts.append(Part(pointer, rows, length, found[1], x.aligned))
            continue
        end = Pointer(len(tensors) + 1 + len(scratch))
        scratch.append(Buffer(x.shape, x.dtype))
        steps += contiguous(x, pointer, end, request.target).steps
        parts.append(Part(end, rows, length, length, 16))
    steps.append(_join(parts, out, vector))
    return Plan(tuple(steps), (out,), tuple(scratch))


def _join(parts: Sequence[Part], out: Buffer, vector: int) -> Step:
    pitch = sum(p.length for p in parts)
    most = max(math.prod(out.shape), *((p.rows - 1) * p.pitch + p.length for p in parts))
    bits = 64 if most >= NARROW else 32
    table: list[tuple[int, ...]] = []
    offset = blocks = 0
    for p in parts:
        width = _width(p, offset, pitch, vector, out.dtype.itemsize)
        chunks = p.length // width
        count = p.rows * chunks
        factors = divisor(max(chunks, 1), bits)
        table.append((blocks, count, chunks, *factors, p.pitch, offset, width))
        blocks += cdiv(count, BLOCK * EACH)
        offset += p.length
    letter = "I" if bits == 32 else "Q"
    packed = struct.pack(f"<{8 * len(parts)}{letter}", *(v for row in table for v in row))
    ctype, index = source.ctype(out.dtype), "int" if bits == 32 else "long long"
    types = ", ".join([ctype, index, str(vector), str(EACH), *[ctype] * len(parts)])
    kernel = source.kernel("join/join.cu", f"join<{types}>")
    tensors = [p.pointer for p in parts]
    args: tuple[Argument, ...] = (Pointer(len(parts)), pitch, packed, *tensors)
    return Step(kernel, (blocks,), (BLOCK,), args)


def _width(part: Part, offset: int, pitch: int, most: int, itemsize: int) -> int:
    """The widest vector, in elements, that all rows of a tensor and of the result consist of."""
    numbers = (part.length, offset, *((part.pitch, pitch) if part.rows > 1 else ()))
    width = most
    while part.aligned % (width * itemsize) or any(n % width for n in numbers):
        width //= 2
    return width
