"""The tensors of a call: the input as rows, the weight, labels and bias, copied where needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core.choose import Request
from weft.ops.core.composition import Composition
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Buffer, Layout, Pointer
from weft.ops.families.elementwise.copies import contiguous


@dataclass(frozen=True)
class AddressedTensor:
    """A tensor of a call: its address, and its layout there."""

    pointer: Pointer
    layout: Layout


@dataclass(frozen=True)
class LossTensors:
    """A call: input [rows, hidden], weight [classes, hidden], a label for each row, maybe a bias.

    pitch    elements from one row of a chunk's logits to the next: whole vectors of 16 bytes
    chunk    rows of a chunk
    """

    request: Request
    made: Composition
    rows: int
    hidden: int
    classes: int
    pitch: int
    chunk: int
    input: AddressedTensor
    weight: AddressedTensor
    target: AddressedTensor
    bias: AddressedTensor | None

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """(first row, rows) of each."""
        starts = range(0, self.rows, self.chunk)
        return [(start, min(self.chunk, self.rows - start)) for start in starts]

    def part(self, first: int, rows: int) -> AddressedTensor:
        """Rows of the input."""
        x = self.input.layout
        offset = first * x.strides[0] * x.itemsize
        layout = Layout(x.dtype, (rows, self.hidden), x.strides, _aligned(x.aligned, offset))
        return AddressedTensor(Pointer(self.input.pointer.number, offset), layout)

    def logits(self, rows: int) -> Layout:
        """The layout of a chunk's logits."""
        return Layout(self.input.layout.dtype, (rows, self.classes), (self.pitch, 1), 16)


def tensors_of(
    request: Request, first: int, outputs: tuple[Buffer, ...], chunk: int
) -> LossTensors:
    """The tensors of a request whose inputs from `first` on are input, weight, target and bias."""
    made = Composition(len(request.inputs), outputs)

    def placed(number: int, *, rows: bool = False) -> AddressedTensor:
        x = request.inputs[number]
        assert x is not None
        if rows:
            x = _as_rows(x)
        if x.contiguous or (rows and _regular(x)):
            return AddressedTensor(Pointer(number), x)
        buffer = Buffer(x.shape, x.dtype)
        end = made.buffer(buffer)
        copy = contiguous(x, Pointer(number), end, request.target)
        made.steps += copy.steps
        dense = Layout(x.dtype, x.shape, buffer.steps, 16)
        return AddressedTensor(end, _as_rows(dense) if rows else dense)

    x, w = request.inputs[first], request.inputs[first + 1]
    assert x is not None and w is not None
    hidden, classes = w.shape[1], w.shape[0]
    rows = math.prod(x.shape[:-1])
    vector = 16 // x.itemsize
    bias = None if request.inputs[first + 3] is None else placed(first + 3)
    return LossTensors(
        request, made, rows, hidden, classes, cdiv(classes, vector) * vector,
        max(1, min(chunk, rows)),
        placed(first, rows=True), placed(first + 1, rows=True), placed(first + 2), bias,
    )  # fmt: skip


def _as_rows(x: Layout) -> Layout:
    """A tensor [..., n] as a matrix, if its strides allow."""
    walk = merged(x.shape[:-1], [x.strides[:-1]])
    if len(walk.sizes) > 1:
        return x
    stride = walk.strides[0][0] or x.shape[-1]
    rows = math.prod(x.shape[:-1])
    return x._replace(shape=(rows, x.shape[-1]), strides=(stride, x.strides[-1]))


def _regular(x: Layout) -> bool:
    """True for a matrix with contiguous rows, none of which overlap."""
    return len(x.shape) == 2 and x.strides[1] == 1 and x.strides[0] >= x.shape[1]


def _aligned(base: int, offset: int) -> int:
    """The alignment of an address `offset` bytes behind one of alignment `base`."""
    return min(base, offset & -offset) if offset else base
