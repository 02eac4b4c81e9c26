"""Elementwise expressions as data: a job, its operands, and the access modes of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.ops.core import source
from weft.ops.core.layouts import dense, merged
from weft.ops.core.plan import Argument, Pointer, Step

OPERANDS = 3
"""The number of operands of the kernels; missing ones repeat the first."""
LINEAR, ROW, SAME, EACH, TRANSPOSED, SHIFTED = range(6)
"""Access modes of an operand; see cuda/elementwise.cu."""


class BroadcastOperand(NamedTuple):
    """A tensor that is read: strides along the output's dimensions, and its address."""

    ctype: str
    itemsize: int
    strides: tuple[int, ...]
    aligned: int
    pointer: Pointer


@dataclass(frozen=True)
class ElementwiseJob:
    """An expression to evaluate for each element.

    sizes    of the output, in the order of its memory: outermost first
    compute  the C++ type of a, b, c, s and t
    out      the C++ type and size of an element of the output, and its address
    numbers  the values of s and t; bytes for a struct
    """

    expression: str
    compute: str
    sizes: tuple[int, ...]
    operands: tuple[BroadcastOperand, ...]
    out_ctype: str
    out_itemsize: int
    out: Pointer
    numbers: tuple[float | bytes, ...] = (0, 0)

    def merged(self) -> ElementwiseJob:
        """The same job with the fewest dimensions."""
        plain = dense(self.sizes)
        walk = merged(self.sizes, [plain, *(o.strides for o in self.operands)])
        operands = zip(self.operands, walk.strides[1:], strict=True)
        return replace(
            self, sizes=walk.sizes, operands=tuple(o._replace(strides=s) for o, s in operands)
        )

    @property
    def n(self) -> int:
        return math.prod(self.sizes)

    @property
    def moved(self) -> int:
        """Compulsory bytes: each element read and written once."""
        return self.n * self.out_itemsize + sum(footprint(o, self.sizes) for o in self.operands)

    def kernel(self, name: str, *more: object) -> Callable[..., Step]:
        """Return a function (grid, block, *arguments) -> the launch of a kernel."""
        three = [*self.operands, *[self.operands[0]] * (OPERANDS - len(self.operands))]
        types = [self.out_ctype, self.compute, *(o.ctype for o in three)]
        made = source.kernel(
            "elementwise/elementwise.cu",
            f"{name}<{', '.join([*types, *map(str, more)])}>",
            EXPRESSION=self.expression,
        )
        pointers: list[Argument] = [*(o.pointer for o in three), self.out, *self.numbers]
        return lambda grid, block, *args: Step(
            made, (grid,), (block,), (*pointers, *args), early=True
        )


class Strategy(NamedTuple):
    """One strategy for a job; `build` compiles its kernel."""

    name: str
    cost: float
    why: str
    build: Callable[[], Step]


def footprint(operand: BroadcastOperand, sizes: Sequence[int]) -> int:
    """Bytes of an operand's elements, each counted once."""
    steps = zip(sizes, operand.strides, strict=True)
    return operand.itemsize * math.prod(size for size, stride in steps if stride)


def vectors(job: ElementwiseJob) -> Iterator[int]:
    """Elements per vector, of up to 16 bytes of the widest type."""
    vector = 16 // max(job.out_itemsize, *(o.itemsize for o in job.operands), 1)
    while vector:
        yield vector
        vector //= 2
