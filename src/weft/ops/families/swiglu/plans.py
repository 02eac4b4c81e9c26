"""Plan gated activations: rows of two tensors, or of the halves of one, in one launch."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.swiglu import model
from weft.ops.families.swiglu.structs import GatedRows

THREADS = 256
ACTIVATIONS = {"silu": "Silu", "gelu": "Gelu", "gelu_tanh": "GeluTanh"}
"""The names of the kernels' activations."""


@dataclass(frozen=True)
class _Rows:
    """A tensor as rows that are `pitch` elements apart; copied first if its strides are others."""

    pointer: Pointer
    pitch: int
    aligned: int
    steps: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()

    def half(self, n: int, size: int) -> _Rows:
        """The second half of rows of 2 n elements of so many bytes."""
        offset = n * size
        aligned = min(self.aligned, offset & -offset) if offset else self.aligned
        pointer = Pointer(self.pointer.number, self.pointer.offset + offset)
        return _Rows(pointer, self.pitch, aligned)


def _rows(request: Request, number: int, room: int) -> _Rows:
    """An input as rows; `room` is the number of the scratch buffer of a copy."""
    x = request.inputs[number]
    assert x is not None
    walk = merged(x.shape[:-1], [x.strides[:-1]])
    if len(walk.sizes) == 1 and (x.strides[-1] == 1 or x.shape[-1] == 1):
        pitch = walk.strides[0][0] if walk.sizes[0] > 1 else x.shape[-1]  # 0: a row for all
        return _Rows(Pointer(number), pitch, x.aligned)
    copy = contiguous(x, Pointer(number), Pointer(room), request.target)
    return _Rows(Pointer(room), x.shape[-1], 16, copy.steps, (Buffer(x.shape, x.dtype),))


def width(x: Layout, packed: bool) -> int:
    """Elements of a row of the result."""
    return x.shape[-1] // (2 if packed else 1)


def candidates(backward: bool, request: Request) -> list[Candidate]:
    """The plan: (gate, up) or, backward, (dy, gate, up); without `up`, gate has both.

    Options are an activation, and whether the gate is the first of both.
    """
    first = 1 if backward else 0
    gate, up = request.inputs[first], request.inputs[first + 1]
    assert gate is not None
    packed = up is None
    n = width(gate, packed)
    shape = (*gate.shape[:-1], n)
    outputs: tuple[Buffer, ...] = (Buffer(shape, gate.dtype),)
    if backward:
        second = Buffer((0,) if packed else shape, gate.dtype)
        outputs = (Buffer(gate.shape, gate.dtype), second)
    count = math.prod(gate.shape[:-1])
    if not count * n:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    moved = (5 if backward else 3) * count * n * gate.itemsize
    build = functools.partial(_plan, backward, request, outputs, count, n)
    time = model.stream_time(request.target, moved)
    return [Candidate("rows", time, f"{count} rows of {n}", build)]


def _plan(
    backward: bool, request: Request, outputs: tuple[Buffer, ...], count: int, n: int
) -> Plan:
    room, tensors = len(request.inputs) + len(outputs), []
    size = outputs[0].dtype.itemsize
    for number in [i for i, x in enumerate(request.inputs) if x is not None]:
        made = _rows(request, number, room)
        room += len(made.scratch)
        tensors.append(made)
    packed = request.inputs[-1] is None
    if packed:
        tensors.append(tensors[-1].half(n, size))
    out = Pointer(len(request.inputs))
    second = Pointer(out.number, n * size) if packed else Pointer(out.number + 1)
    results = (out, second) if backward else (out,)
    if packed and not request.options.get("gate_first", True):
        tensors[-2:] = tensors[:-3:-1]
        results = results[::-1]
    # Rows without gaps are one long row.
    result = 2 * n if packed and backward else n
    if all(t.pitch == n for t in tensors) and result == n and count * n < 2**31:
        count, n, result = 1, count * n, count * n
    vector = 16 // size
    pitches = [t.pitch for t in tensors] if count > 1 else []
    while vector > 1 and any(
        v % vector for v in (n, *pitches, *(t.aligned // size for t in tensors))
    ):
        vector //= 2
    name = "backward" if backward else "forward"
    activation = ACTIVATIONS[request.options.get("activation", "silu")]
    text = source.template(name, activation, source.ctype(outputs[0].dtype), vector, model.EACH)
    kernel = source.kernel("swiglu/swiglu.cu", text, **GatedRows.define())
    dy, gate, up = tensors if backward else (tensors[0], *tensors)
    rows = GatedRows(count, gate.pitch, up.pitch, dy.pitch, result, n).pack()
    pointers: tuple[Argument, ...] = tuple(t.pointer for t in tensors)
    args = (*pointers, *results, rows)
    blocks = cdiv(count * (n // vector), THREADS * model.EACH)
    step = Step(kernel, (blocks,), (THREADS,), args, early=True)
    before = tuple(s for t in tensors for s in t.steps)
    return Plan((*before, step), outputs, tuple(b for t in tensors for b in t.scratch))
