"""Copies of strided tensors into contiguous ones, as steps of other ops' plans."""

from __future__ import annotations

from typing import NamedTuple

from weft.ops.plan import Layout, Pointer, Step
from weft.ops.pointwise import Job, Operand, Way, ways
from weft.ops.target import Target

SIZES = (1, 2, 4, 8)
"""Bytes of an element that can be copied."""


class Copy(NamedTuple):
    """The launches that copy a tensor, and their modelled time."""

    steps: tuple[Step, ...]
    cost: float


def copying(x: Layout, start: Pointer, end: Pointer, target: Target) -> list[Way]:
    """All ways to copy x, at `start`, to a contiguous tensor of its shape at `end`."""
    ctype = f"Bits<{x.itemsize}>"
    operand = Operand(ctype, x.itemsize, x.strides, x.aligned, start)
    job = Job("a", ctype, x.shape, (operand,), ctype, x.itemsize, end, bytes(x.itemsize))
    return ways(job, target)


def contiguous(x: Layout, start: Pointer, end: Pointer, target: Target) -> Copy:
    """Copies x, at `start`, to a contiguous tensor of its shape at `end`, by the best way."""
    if x.numel == 0:
        return Copy((), 0.0)
    best = min(copying(x, start, end, target), key=lambda way: way.cost)
    return Copy((best.build(),), best.cost)
