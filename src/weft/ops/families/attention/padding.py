"""Pad the rows of operands to whole, aligned vectors of 16 bytes, which kernels copy at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct, Unsigned, array
from weft.ops.core import source
from weft.ops.core.plan import Argument, Buffer, Layout, Pointer, Step

VECTOR = 16
"""Bytes of a vector."""
MOST = 5
"""Tensors of a launch: those of a backward call."""
THREADS = 256


@dataclass(frozen=True)
class Padded(Struct):
    """A tensor and its copy, as pad.cu takes them. Strides are in elements."""

    strides: Annotated[tuple[int, ...], array(LongLong, 3), "of batch, head and row"] = (0, 0, 0)
    heads: Int = 0
    rows: Int = 0
    depth: Int = 0
    vectors: Annotated[Unsigned, "of the copy"] = 0
    block: Annotated[Unsigned, "the first of the copy"] = 0


@dataclass(frozen=True)
class PaddedTensors(Struct):
    """The tensors of a launch."""

    of: Annotated[tuple[Padded, ...], array(Padded, MOST)]


class _Copy(NamedTuple):
    """A tensor [batch, heads, rows, elements] and the vectors of its copy."""

    start: Pointer
    end: Pointer
    sizes: tuple[int, int, int, int]
    strides: tuple[int, int, int]
    aligned: int
    itemsize: int

    @property
    def vectors(self) -> int:
        return math.prod(self.sizes[:3]) * cdiv(self.sizes[3] * self.itemsize, VECTOR)

    @property
    def readable(self) -> int:
        """Elements that can be read at once, from any row."""
        numbers = (self.aligned // self.itemsize, self.sizes[3], *self.strides)
        return math.gcd(*numbers, VECTOR // self.itemsize)


def needs_padding(x: Layout, sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """True for a tensor [batch, heads, rows, elements] whose rows are no whole, aligned vectors."""
    elements = VECTOR // x.itemsize
    used = [step for n, step in zip(sizes, strides, strict=False) if n > 1]
    whole = x.aligned == VECTOR and all(n % elements == 0 for n in (sizes[-1], *used))
    return not whole and 0 not in sizes


class Padding:
    """Copies of all tensors of a call that need one, in one launch."""

    def __init__(self) -> None:
        self._copies: list[_Copy] = []
        self._ctype = ""

    def add(
        self, start: Pointer, end: Pointer, x: Layout, sizes: Sequence[int], strides: Sequence[int]
    ) -> tuple[Buffer, tuple[int, int, int]]:
        """Add a copy of x from `start` to `end`: its buffer, and strides as of `Operand`.

        What is repeated, with a stride of 0, is copied once.
        """
        once = (1 if step == 0 else n for n, step in zip(sizes, strides, strict=False))
        batch, heads, rows = once
        copy = _Copy(
            start, end, (batch, heads, rows, sizes[3]), _three(strides), x.aligned, x.itemsize
        )
        self._copies.append(copy)
        self._ctype = source.ctype(x.dtype)
        width = cdiv(sizes[3] * x.itemsize, VECTOR) * VECTOR // x.itemsize
        dense = (heads * rows * width, rows * width, width)
        made = (0 if old == 0 else new for old, new in zip(strides, dense, strict=True))
        return Buffer((batch, heads, rows, width), x.dtype), _three(tuple(made))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The launch; none if nothing was added."""
        if not self._copies:
            return ()
        pointers: list[Argument] = [None] * (2 * MOST)
        made, block = [Padded()] * MOST, 0
        for i, copy in enumerate(self._copies):
            pointers[2 * i : 2 * i + 2] = copy.start, copy.end
            made[i] = Padded(copy.strides, *copy.sizes[1:], copy.vectors, block)
            block += cdiv(copy.vectors, THREADS)
        readable = min(copy.readable for copy in self._copies)
        name = f"pad<{self._ctype}, {readable}>"
        kernel = source.kernel("attention/pad.cu", name, **PaddedTensors.define())
        args = (*pointers, PaddedTensors(tuple(made)).pack(), len(self._copies))
        return (Step(kernel, (block,), (THREADS,), args),)


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    first, second, third = numbers
    return first, second, third
