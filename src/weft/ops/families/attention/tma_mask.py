"""Masks that TMA copies to shared memory ahead of the scores: their maps, and padded copies."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES
from weft.ops.core.plan import Buffer, Layout, Map, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.attention.forward_job import AttentionJob
from weft.ops.families.attention.padding import Padding, needs_padding
from weft.ops.families.attention.problem import ADDED, ADDED_FLOAT, BOOLEAN, Problem
from weft.ops.families.attention.tma_model import UNIT

ROW = 128
"""Bytes of a row of a slab."""
KINDS = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.uint8: "u8"}


class CopiedMask(NamedTuple):
    """A mask as TMA reads it.

    strides  in elements, of batch, heads and rows; 0 for what all of them share
    steps    the launch that pads its rows to whole vectors, with its buffer; both may be empty
    cost     seconds of this launch
    """

    pointer: Pointer
    dtype: torch.dtype
    strides: tuple[int, int, int]
    steps: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    cost: float = 0.0

    def map(self, p: Problem) -> Map:
        """The map of [keys, rows, heads, batch], whose boxes are rows of slabs for a unit."""
        batch, head, row = self.strides
        sizes = [n if step else 1 for n, step in ((p.rows, row), (p.heads, head), (p.batch, batch))]
        size = self.dtype.itemsize
        nbytes = tuple(
            size * step if n > 1 else 0 for n, step in zip(sizes, (row, head, batch), strict=True)
        )
        box = (ROW // size, UNIT if row else 1, 1, 1)
        kind = next(t for t in TYPES if t.name == KINDS[self.dtype])
        return Map(
            self.pointer,
            MapRequest(kind, 0, (p.keys, *sizes), nbytes, (1,) * 4, box, swizzle=3, l2=2),
        )


def copied_mask(job: AttentionJob, gpu: Target) -> CopiedMask | None:
    """The mask of a call as TMA reads it; None if there is none, or its keys are no neighbours."""
    p, inputs = job.problem, job.operands.request.inputs
    pointer = p.mask_pointer
    if p.mask not in (BOOLEAN, ADDED, ADDED_FLOAT) or p.scale <= 0:
        return None
    if not isinstance(pointer, Pointer) or p.mask_strides[3] != 1:
        return None
    dtype = {BOOLEAN: torch.uint8, ADDED: p.dtype, ADDED_FLOAT: torch.float32}[p.mask]
    given = inputs[pointer.number] if pointer.number < len(inputs) else None
    x = Layout(dtype, (), (), 16 if given is None else given.aligned)
    batch, head, row, _ = p.mask_strides
    sizes = (p.batch, p.heads, p.rows, p.keys)
    # The last row of a mask may end anywhere: only the strides between rows must be whole vectors.
    if not needs_padding(x, (*sizes[:3], ROW), (batch, head, row)):
        return CopiedMask(pointer, dtype, (batch, head, row))
    end = Pointer(job.operands.first + len(job.operands.scratch))
    padding = Padding()
    buffer, strides = padding.add(pointer, end, x, sizes, (batch, head, row))
    cost = gpu.launch / 2 + 2 * x.itemsize * math.prod(buffer.shape) / gpu.bandwidth
    return CopiedMask(end, dtype, strides, padding.steps, (buffer,), cost)
