"""Describe a product with a 2:4 sparse weight for the kernels: operands without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core.choose import Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.sparse.model import SparseSize

X, VALUES, METADATA, BIAS, OUT = range(5)


@dataclass(frozen=True)
class SparseSizes(Struct):
    """Sizes of a product for the kernel of warps."""

    rows: Annotated[Int, "features of the weight"]
    columns: Annotated[Int, "rows of x"]
    k: Int
    pitch: Annotated[LongLong, "from one row of x to the next"]


@dataclass(frozen=True)
class SparseCall:
    """y = x Wᵀ + bias: the operands, and the copies that make them contiguous.

    pitch  elements from one row of x to the next
    """

    size: SparseSize
    pitch: int
    operands: tuple[Pointer, Pointer, Pointer, Pointer | None]
    out: Buffer
    before: tuple[Step, ...]
    scratch: tuple[Buffer, ...]
    cost: float

    @property
    def sizes(self) -> bytes:
        """The struct that the kernel of warps takes."""
        size = self.size
        return SparseSizes(size.features, size.rows, size.k, self.pitch).pack()

    def plan(self, step: Step) -> Plan:
        return Plan((*self.before, step), (self.out,), self.scratch)


class Contiguous:
    """Pointers to inputs; those that no kernel reads as they lie are copied first."""

    def __init__(self, request: Request, outputs: int = 1) -> None:
        self.request = request
        self.first = len(request.inputs) + outputs
        self.steps: list[Step] = []
        self.scratch: list[Buffer] = []
        self.cost = 0.0

    def layout(self, number: int) -> Layout:
        found = self.request.inputs[number]
        assert found is not None
        return found

    def pointer(self, number: int) -> Pointer:
        """Return the place of an input in one piece, from a multiple of 16 bytes on."""
        x = self.layout(number)
        return Pointer(number) if x.contiguous and x.aligned == 16 else self.copied(number)

    def copied(self, number: int) -> Pointer:
        """Return the place of a contiguous copy of an input."""
        x = self.layout(number)
        end = Pointer(self.first + len(self.scratch))
        copy = contiguous(x, Pointer(number), end, self.request.target)
        self.scratch.append(Buffer(x.shape, x.dtype))
        self.steps += copy.steps
        self.cost += copy.cost
        return end

    def rows(self, number: int) -> tuple[Pointer, int]:
        """Return the place of an input as rows of its last dimension, and their distance.

        Rows begin at multiples of 16 bytes.
        """
        x = self.layout(number)
        walk = merged(x.shape[:-1], [x.strides[:-1]])
        pitch = walk.strides[0][0] if walk.sizes != (1,) else x.shape[-1]
        fits = len(walk.sizes) == 1 and x.strides[-1] == 1 and x.aligned == 16
        if fits and pitch >= x.shape[-1] and pitch * x.itemsize % 16 == 0:
            return Pointer(number), pitch
        return self.copied(number), x.shape[-1]


def sparse_call(request: Request) -> SparseCall:
    """The product of a request of `sparse_linear`."""
    made = Contiguous(request)
    x, values = made.layout(X), made.layout(VALUES)
    features, k = values.shape[0], x.shape[-1]
    pointer, pitch = made.rows(X)
    bias = None if request.inputs[BIAS] is None else made.pointer(BIAS)
    operands = (pointer, made.pointer(VALUES), made.pointer(METADATA), bias)
    return SparseCall(
        SparseSize(features, x.numel // k, k), pitch, operands,
        Buffer((*x.shape[:-1], features), x.dtype), tuple(made.steps), tuple(made.scratch),
        made.cost,
    )  # fmt: skip
