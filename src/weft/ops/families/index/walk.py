"""Packs the dimensions and strides of operands for the kernels: `Walk` in cuda/walk.cuh."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from weft.ops.core.layouts import dense, divisor, merged
from weft.ops.core.plan import Layout

NARROW = 2**31 - 2**16
"""Indices and offsets below this use 32-bit arithmetic; a grid is up to a block longer."""


@dataclass(frozen=True)
class Walk:
    """The elements of a row-major tensor, and their places in operands.

    sizes    outermost first, merged where all operands allow it
    strides  of each operand
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def is_linear(self, operand: int) -> bool:
        """True if an operand has the order of the elements."""
        return self.strides[operand] == dense(self.sizes)

    def pack(self, wide: bool) -> bytes:
        """The struct, innermost dimension first; `wide`: of 64-bit numbers."""
        sizes = self.sizes[::-1]
        factors = [divisor(size, 64 if wide else 32) for size in sizes]
        rows = [sizes, [f[0] for f in factors], [f[1] for f in factors]]
        rows += [s[::-1] for s in self.strides]
        letter = "Q" if wide else "I"
        return struct.pack(f"<{len(rows) * len(sizes)}{letter}", *(v for row in rows for v in row))


def walk(sizes: Sequence[int], *strides: Sequence[int]) -> Walk:
    """The walk over a tensor of these sizes."""
    made = merged(sizes, [dense(sizes), *strides])
    return Walk(made.sizes, made.strides[1:])


def without(strides: Sequence[int], dim: int) -> tuple[int, ...]:
    """The strides of an operand whose dimension `dim` is addressed by an index instead."""
    return tuple(0 if d == dim else s for d, s in enumerate(strides))


def full(x: Layout) -> Layout:
    """A layout with at least one dimension."""
    return x if x.shape else x._replace(shape=(1,), strides=(1,))


def span(x: Layout) -> int:
    """Elements from the first to the last one in memory."""
    return 1 + sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True))


def is_wide(*counts: int) -> bool:
    """True if 32-bit arithmetic is too narrow for these counts."""
    return max(counts) >= NARROW
