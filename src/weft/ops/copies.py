"""Copies of strided tensors into contiguous ones, as steps of other ops' plans."""

from __future__ import annotations

import struct
from typing import NamedTuple

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops import source
from weft.ops.layouts import merged
from weft.ops.plan import Buffer, Layout, Pointer, Step
from weft.ops.target import Target

THREADS = 256
RANK = 6
"""Dimensions that the strided kernel can walk."""


class Copy(NamedTuple):
    """The launches that copy a tensor, and their modelled time."""

    steps: tuple[Step, ...]
    cost: float


def contiguous(x: Layout, start: Pointer, end: Pointer, target: Target) -> Copy:
    """Copies x, at `start`, to a contiguous tensor of its shape at `end`."""
    dense = Buffer(x.shape, x.dtype)
    walk = merged(x.shape, [dense.steps, x.strides])
    if len(walk.sizes) > RANK:
        raise ArgumentError(
            "weft.ops: a tensor has too many dimensions whose strides do not follow each other",
            got=str(len(walk.sizes)), allowed=f"up to {RANK}", next="call x.contiguous() first",
        )  # fmt: skip
    missing = RANK - len(walk.sizes)
    rows = [(1,) * missing + walk.sizes, *((0,) * missing + s for s in walk.strides)]
    rows += [(0,) * RANK] * 2
    shape = struct.pack(f"<{5 * RANK}q", *(s for row in rows for s in row))
    ctype = source.ctype(x.dtype)
    kernel = source.kernel("elementwise.cu", f"strided<{', '.join([ctype] * 5)}>", EXPRESSION="a")
    args = (start, start, start, end, x.numel, shape)
    step = Step(kernel, (cdiv(x.numel, THREADS),), (THREADS,), args)
    return Copy((step,), target.launch + 3 * x.numel * x.itemsize / target.bandwidth)
