"""Describe operands of attention to TMA: maps of tensors whose tiles are copied as slabs."""

from __future__ import annotations

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.ops.core.plan import Map, Pointer
from weft.ops.families.attention.problem import Operand, Problem

SLAB = 64
"""Columns of a slab: 128 bytes, within which a copy exchanges vectors."""
KINDS = {torch.float16: "f16", torch.bfloat16: "bf16"}


def operand_map(
    x: Operand, p: Problem, sizes: tuple[int, int, int], box: tuple[int, ...], by_head: bool = False
) -> Map:
    """The map of [elements, rows, heads, batch], or with heads before rows."""
    batch, head, row = x.strides
    strides = (head, row, batch) if by_head else (row, head, batch)
    dims = (*sizes, p.batch)
    # A dimension of one element may have any stride.
    nbytes = tuple(
        p.dtype.itemsize * stride if size > 1 else 0
        for stride, size in zip(strides, dims[1:], strict=True)
    )
    kind = next(t for t in TYPES if t.name == KINDS[p.dtype])
    return Map(x.pointer, MapRequest(kind, 0, dims, nbytes, (1,) * 4, box, swizzle=3, l2=2))


def float_map(x: Pointer, columns: int, rows: int, box_rows: int) -> Map:
    """The map of rows of floats, of which a box has `box_rows`."""
    kind = next(t for t in TYPES if t.name == "f32")
    box = (columns, box_rows)
    return Map(x, MapRequest(kind, 0, (columns, rows), (4 * columns,), (1, 1), box, l2=2))
