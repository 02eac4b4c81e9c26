"""The launches and scratch tensors of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from weft.ops.core import source
from weft.ops.core.plan import Buffer, Layout, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob
from weft.ops.families.elementwise.pointwise import strategies
from weft.ops.families.fft.factors import Passes, factors

COMPLEX = torch.complex64


@dataclass(frozen=True)
class WorkspaceTensor:
    """A tensor in memory; strides in elements, `aligned` in bytes."""

    pointer: Pointer
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: int = 16

    @property
    def ctype(self) -> str:
        return "float2" if self.dtype is COMPLEX else source.ctype(self.dtype)

    @property
    def bytes(self) -> int:
        total = int(self.dtype.itemsize)
        for size in self.shape:
            total *= size
        return total

    def without(self, dim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes and strides of the other dimensions."""
        return (*self.shape[:dim], *self.shape[dim + 1 :]), (
            *self.strides[:dim],
            *self.strides[dim + 1 :],
        )

    def with_last(self, dim: int) -> WorkspaceTensor:
        """The same tensor with this dimension as the last one."""
        shape, strides = self.without(dim)
        return WorkspaceTensor(
            self.pointer,
            self.dtype,
            (*shape, self.shape[dim]),
            (*strides, self.strides[dim]),
            self.aligned,
        )


class Workspace:
    """The launches of a plan in order, and its scratch; `first` is the number of the first one.

    chosen  the passes of some long lengths, if they are not those that the model takes
    """

    def __init__(
        self, target: Target, first: int, chosen: Mapping[int, Passes] = MappingProxyType({})
    ) -> None:
        self.target, self.first, self.chosen = target, first, chosen
        self.steps: list[Step] = []
        self.scratch: list[Buffer] = []

    def passes(self, n: int, count: int) -> Passes | None:
        """The passes of `count` transforms of a length that no block holds."""
        return self.chosen.get(n) or factors(n, count)

    def buffer(self, shape: tuple[int, ...], dtype: torch.dtype = COMPLEX) -> WorkspaceTensor:
        """A new scratch tensor."""
        made = Buffer(shape, dtype)
        self.scratch.append(made)
        number = self.first + len(self.scratch) - 1
        return WorkspaceTensor(Pointer(number), dtype, shape, made.steps)

    def copied(self, x: WorkspaceTensor) -> WorkspaceTensor:
        """A contiguous copy."""
        made = self.buffer(x.shape, x.dtype)
        self.copy(x, made.pointer)
        return made

    def converted(self, x: WorkspaceTensor, y: WorkspaceTensor) -> None:
        """Store x in y, which is contiguous: real numbers as complex ones, or real parts."""
        if x.dtype is y.dtype:
            self.copy(x, y.pointer)
            return
        # Complex numbers are pairs of words, the real part first.
        bits, zero = f"Bits<{COMPLEX.itemsize}>", bytes(COMPLEX.itemsize)
        if y.dtype is COMPLEX:
            ctype, expression, compute, out = x.ctype, bits + "{__float_as_uint(a)}", "float", bits
            numbers: tuple[float | bytes, ...] = (0.0, 0.0)
        else:
            ctype, expression, compute, out = bits, "__uint_as_float(a.bits)", bits, y.ctype
            numbers = (zero, zero)
        operand = BroadcastOperand(ctype, x.dtype.itemsize, x.strides, x.aligned, x.pointer)
        job = ElementwiseJob(
            expression, compute, x.shape, (operand,), out, y.dtype.itemsize, y.pointer, numbers
        )
        self.steps.append(
            min(strategies(job, self.target), key=lambda strategy: strategy.cost).build()
        )

    def copy(self, x: WorkspaceTensor, end: Pointer) -> None:
        """Copy x to a contiguous tensor."""
        layout = Layout(x.dtype, x.shape, x.strides, x.aligned)
        self.steps += contiguous(layout, x.pointer, end, self.target).steps
