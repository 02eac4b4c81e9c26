"""The backward ops of layer_norm and rms_norm of float32 beside conversions, as under autocast.

The products around such a norm have 16 bits. Their gradients, up to three, are converted and added
where they are read, and the gradient of the rows is stored in both dtypes: the kernels that convert
and add, and their passes over memory, are saved.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan
from weft.ops.families.norm.column_sums import with_sums
from weft.ops.families.norm.rows import RowJob, row_job
from weft.ops.families.norm.streamed.stream import VECTOR_BYTES, RowStream, stream_of

MOST = 3
"""Gradients of 16 bits that are added."""


def _candidates(centred: bool, request: Request) -> list[Candidate]:
    """One candidate, for rows of whole vectors of up to 512 threads; none for others."""
    x, w = request.inputs[:2]
    assert x is not None
    shape = tuple(request.options["normalized_shape"])
    wide, *narrow, total = range(2 + 1 + centred, len(request.inputs))
    lowered = request.options["lowered"]
    sums = Buffer(shape, x.dtype if w is None else w.dtype)
    low = Buffer(x.shape if lowered else (0,), lowered or x.dtype)
    outputs = (Buffer(x.shape, x.dtype), *[sums] * (1 + centred), low)
    rows = (0, wide, *narrow, total)
    made = row_job(request, math.prod(shape), rows, (1,), outputs, aligned_copies=True)
    count = sum(request.inputs[i] is not None for i in narrow)
    whole = sum(request.inputs[i] is not None for i in (0, wide, total))
    size = x.dtype.itemsize
    read = whole * VECTOR_BYTES + count * VECTOR_BYTES // 2
    by = None if x.dtype is not torch.float32 or not x.numel else stream_of(made, read)
    if by is None:
        return []
    stored = size + (size // 2 if lowered else 0)
    moved = made.count * made.n * (read * size / VECTOR_BYTES + stored)
    build = functools.partial(_plan, centred, made, by)
    return [Candidate("streamed rows", made.cost + by.time(moved), by.why, build)]


def _plan(centred: bool, made: RowJob, by: RowStream) -> Plan:
    x, w, *rest = made.inputs
    mean, rstd, dy, *narrow, total = rest if centred else (None, *rest)
    lowered = made.request.options["lowered"]
    first = next((i for i in made.request.inputs[-1 - MOST : -1] if i is not None), None)
    dtype = lowered if first is None else first.dtype
    given = [p for p in narrow if p is not None]
    flags = (centred, total is not None, dtype, len(given), dy is not None, lowered is not None)
    tensors = (dy, x, w, mean, rstd, total, made.output(0))
    padded = (*given, *[None] * (MOST - len(given)))
    step = by.step(flags, tensors, (*padded, made.output(2 + centred) if lowered else None))
    return with_sums(centred, made, by.grid, (step,))


def _fake(centred: bool, x: Any, weight: Any, *rest: Any) -> Any:
    shape, lowered = rest[-2:]
    dtype = x.dtype if weight is None else weight.dtype
    sums = [x.new_empty(shape, dtype=dtype) for _ in range(1 + centred)]
    low = x.new_empty(x.shape if lowered else (0,), dtype=lowered or x.dtype)
    return x.new_empty(x.shape), *sums, low


def _definition(name: str, centred: bool) -> Definition:
    statistics = "Tensor mean, Tensor rstd" if centred else "Tensor rstd"
    returned = ", ".join(["Tensor"] * (3 + centred))
    return Definition(
        name=f"{name}_backward_mixed",
        schema=f"(Tensor x, Tensor? weight, {statistics}, Tensor? dy, Tensor? first,"
        " Tensor? second, Tensor? third, Tensor? dtotal, int[] normalized_shape,"
        f" ScalarType? lowered) -> ({returned})",
        doc=f"""The gradients of {name}'s input and weights, then that of the input once more.

        The gradient of the result is the sum of dy, which has the dtype of x, float32, and of
        first, second and third, which have one of 16 bits. dtotal is added to that of the input,
        whose last copy has the dtype `lowered`.
        """,
        fake=functools.partial(_fake, centred),
        candidates=functools.partial(_candidates, centred),
        autocast=None,
        public=False,
    )


DEFINITIONS = (_definition("layer_norm", True), _definition("rms_norm", False))
