"""Attention whose keys and values are in pages, as caches of servers have them."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Layout, Pointer
from weft.ops.families.attention.check import check_window
from weft.ops.families.attention.forward import ranked
from weft.ops.families.attention.forward_job import AttentionJob, Pages, Quantised
from weft.ops.families.attention.problem import HEADS, AttentionOperands, Operand, problem_of

QUERY, KEY, VALUE, TABLE, LENGTHS, KEY_SCALE, VALUE_SCALE = range(7)
"""Numbers of the inputs."""
VECTOR = 8
"""Elements that a thread copies at once: 16 bytes of 16-bit elements, 8 bytes of int8."""


def candidates(request: Request) -> list[Candidate]:
    """Candidates of a call of attention_paged."""
    query, key, value, table, _, key_scale, value_scale = request.inputs
    assert query is not None and key is not None and value is not None and table is not None
    size, most = key.shape[1], table.shape[1]
    inputs = (query, *(_sequences(x, query.shape[0], most) for x in (key, value)))
    options = {**request.options, "enable_gqa": True}
    seen = dataclasses.replace(request, inputs=(*inputs, *request.inputs[TABLE:]), options=options)
    operands = AttentionOperands(seen, 1, ragged=False)
    p = problem_of(operands, (QUERY, KEY, VALUE), None, None)
    p = dataclasses.replace(p, starts=(None, Pointer(LENGTHS)))
    # The stride of a page counts for one sequence as well, and no row needs padding.
    k, v = (
        Operand(Pointer(n), (x.strides[0], x.strides[2], x.strides[1]))
        for n, x in ((KEY, key), (VALUE, value))
    )
    quantised = None
    if key_scale is not None and value_scale is not None:
        strides = ((x.strides[0], x.strides[2], x.strides[1]) for x in (key_scale, value_scale))
        quantised = Quantised(Pointer(KEY_SCALE), Pointer(VALUE_SCALE), *strides)
    pages = Pages(Pointer(TABLE), size, most, quantised)
    out = Pointer(len(request.inputs))
    job = AttentionJob(p, operands.rows(QUERY, p), k, v, operands, out, None, pages)
    if 0 in (p.batch, p.heads, p.rows, p.width):
        return [Candidate("empty", 0.0, "no elements", lambda: job.plan(()))]
    return ranked(job, request.target)


def _sequences(x: Layout, batch: int, most: int) -> Layout:
    """Pages [pages, keys, heads, elements] as [batch, heads, keys of a sequence, elements].

    The first stride is that of a page, whose number the table has.
    """
    page, key, head, element = x.strides
    shape = (batch, x.shape[2], x.shape[1] * most, x.shape[3])
    return Layout(x.dtype, shape, (page, head, key, element), x.aligned)


def check_paged(
    query: Any, key: Any, value: Any, block_table: Any, lengths: Any, is_causal: bool,
    scale: float | None, window: Any = None, key_scale: Any = None, value_scale: Any = None,
) -> None:  # fmt: skip
    """Raise ArgumentError for unsupported arguments."""
    name = "weft.ops.attention_paged"
    quantised = key.dtype is torch.int8 and value.dtype is torch.int8
    check_window("attention_paged", window)
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    dtypes = {x.dtype for x in ((query,) if quantised else (query, key, value))}
    if len(dtypes) > 1 or dtypes - {torch.float16, torch.bfloat16}:
        raise ArgumentError(
            f"{name}: query, key and value have unsupported dtypes",
            got=", ".join(str(x.dtype) for x in (query, key, value)),
            allowed="one dtype, float16 or bfloat16; or int8 for both key and value",
        )
    fits = query.dim() == key.dim() == value.dim() == 4
    fits = fits and key.shape[:3] == value.shape[:3] and query.shape[3] == key.shape[3]
    fits = fits and key.shape[2] > 0 and query.shape[1] % key.shape[2] == 0 and key.shape[1] > 0
    if not fits or not 0 < query.shape[3] <= HEADS[-1] or value.shape[3] > HEADS[-1]:
        raise ArgumentError(
            f"{name}: query, key and value have incompatible shapes",
            got=shapes,
            allowed="query [batch, heads, rows, E], key [pages, keys of a page, shared heads, E],"
            f" value likewise; heads of 1 to {HEADS[-1]} elements, a multiple of the shared ones",
        )
    for which, x in (("key", key), ("value", value)):
        strides = (x.shape[3], *x.stride()[:3])
        size = VECTOR * x.dtype.itemsize
        if x.stride(3) != 1 or x.data_ptr() % size or any(n % VECTOR for n in strides):
            raise ArgumentError(
                f"{name}: the rows of {which} are no whole, aligned vectors of {size} bytes",
                got=f"shape {list(x.shape)}, strides {list(x.stride())}",
                allowed="heads of a multiple of 8 elements, which are contiguous",
            )
    for which, x in (("key_scale", key_scale), ("value_scale", value_scale)):
        _check_scale(f"{name}: {which}", x, key.shape[:3] if quantised else None)
    batch = query.shape[0]
    for which, x, dims in (("block_table", block_table, 2), ("lengths", lengths, 1)):
        right = x.dtype is torch.int32 and x.dim() == dims and x.is_contiguous()
        if not right or x.shape[0] != batch or 0 in x.shape[1:]:
            wanted = "[batch, pages of a sequence]" if dims == 2 else "[batch]"
            raise ArgumentError(
                f"{name}: {which} must be a contiguous tensor of int32, {wanted}",
                got=f"{x.dtype} {list(x.shape)}",
            )


def _check_scale(which: str, scale: Any, shape: Any) -> None:
    """Raise unless a scale has this shape; None: unless there is no scale."""
    if shape is None:
        if scale is not None:
            raise ArgumentError(
                f"{which} is given for keys and values that are not int8", allowed="None"
            )
    elif scale is None or scale.dtype is not torch.float32 or scale.shape != shape:
        raise ArgumentError(
            f"{which} must be float32, one for each key and head of the pages",
            got="None" if scale is None else f"{scale.dtype} {list(scale.shape)}",
            allowed=f"{list(shape)}",
        )
