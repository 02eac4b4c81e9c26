"""Check the arguments of attention."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.families.attention.problem import HEADS

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check(
    name: str, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float,
    is_causal: bool, scale: float | None, enable_gqa: bool, window: Any = None,
) -> None:  # fmt: skip
    """Raise ArgumentError for unsupported arguments."""
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    _dtypes(name, query, key, value)
    check_window(name, window)
    if min(query.dim(), key.dim(), value.dim()) < 2 or len({x.dim() for x in (key, value)}) > 1:
        raise ArgumentError(
            f"weft.ops.{name}: query, key and value must be matrices or batches of them",
            got=shapes,
            allowed="[…, heads, rows, elements]",
        )
    _sizes(name, query, key, value, shapes)
    _heads(name, query, key, value, enable_gqa, shapes)
    if not 0.0 <= dropout_p <= 1.0:
        raise ArgumentError(
            f"weft.ops.{name}: dropout_p is {dropout_p}, expected 0 to 1", next="dropout_p=0.0"
        )
    if attn_mask is not None:
        _mask(name, query, key, value, attn_mask)


def check_ragged(
    name: str, query: Any, key: Any, value: Any, cu_seq_q: Any, cu_seq_k: Any, max_q: int,
    max_k: int, is_causal: bool, scale: float | None, enable_gqa: bool, window: Any = None,
) -> None:  # fmt: skip
    """Raise ArgumentError for unsupported arguments."""
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    _dtypes(name, query, key, value)
    check_window(name, window)
    if not query.dim() == key.dim() == value.dim() == 3:
        raise ArgumentError(
            f"weft.ops.{name}: query, key and value must have three dimensions",
            got=shapes,
            allowed="[rows of all sequences, heads, elements]",
        )
    by_head = [x.transpose(0, 1) for x in (query, key, value)]
    _sizes(name, by_head[0], by_head[1], by_head[2], shapes)
    _heads(name, by_head[0], by_head[1], by_head[2], enable_gqa, shapes)
    for which, x in (("cu_seq_q", cu_seq_q), ("cu_seq_k", cu_seq_k)):
        if x.dtype is not torch.int32 or x.dim() != 1 or len(x) < 1 or x.stride() != (1,):
            raise ArgumentError(
                f"weft.ops.{name}: {which} must be a contiguous vector of int32",
                got=f"{x.dtype} {list(x.shape)}, strides {list(x.stride())}",
                allowed="the first row of each sequence, and the number of all rows",
                next=f"{which}.int().contiguous()",
            )
    if len(cu_seq_q) != len(cu_seq_k) or max_q < 0 or max_k < 0:
        raise ArgumentError(
            f"weft.ops.{name}: cu_seq_q and cu_seq_k do not describe the same sequences",
            got=f"{len(cu_seq_q)} and {len(cu_seq_k)} lengths, max_q {max_q}, max_k {max_k}",
            allowed="equal lengths; max_q and max_k of at least 0",
        )


def _dtypes(name: str, query: Any, key: Any, value: Any) -> None:
    dtypes = {x.dtype for x in (query, key, value)}
    if len(dtypes) > 1 or query.dtype not in DTYPES:
        raise ArgumentError(
            f"weft.ops.{name}: query, key and value have unsupported dtypes",
            got=", ".join(str(x.dtype) for x in (query, key, value)),
            allowed="one dtype: float32, float16 or bfloat16",
        )


def check_window(name: str, window: Any) -> None:
    """Raise ArgumentError unless a window is two numbers from -1 on."""
    if window is None:
        return
    pair = [window] if isinstance(window, int) else list(window)
    if len(pair) != 2 or min(pair) < -1:
        raise ArgumentError(
            f"weft.ops.{name}: window is {tuple(pair)}, expected (left, right)",
            allowed="the numbers of keys before and after a query that it sees; -1: all of them",
            next="window=(1023, 0)",
        )


def _sizes(name: str, query: Any, key: Any, value: Any, shapes: str) -> None:
    """Check rows, keys and elements."""
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ArgumentError(
            f"weft.ops.{name}: query, key and value have incompatible shapes",
            got=shapes,
            allowed="query […, L, E], key […, S, E], value […, S, V]",
        )
    if not 0 < query.shape[-1] <= HEADS[-1] or value.shape[-1] > HEADS[-1]:
        raise ArgumentError(
            f"weft.ops.{name}: heads must have 1 to {HEADS[-1]} elements",
            got=shapes,
            allowed=f"1 to {HEADS[-1]}",
        )


def _heads(name: str, query: Any, key: Any, value: Any, enable_gqa: bool, shapes: str) -> None:
    """Check that batches broadcast, and that heads do or are shared by groups of queries."""
    heads = [x.shape[-3] if x.dim() > 2 else 1 for x in (query, key, value)]
    try:
        torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
        fits = heads[1] == heads[2]
    except RuntimeError:
        fits = False
    if enable_gqa:
        fits = fits and heads[1] > 0 and heads[0] % heads[1] == 0
    else:
        fits = fits and (heads[0] == heads[1] or 1 in heads[:2])
    if not fits:
        raise ArgumentError(
            f"weft.ops.{name}: query, key and value have incompatible batches or heads",
            got=shapes,
            allowed="batches that broadcast; as many heads of queries as of keys and values,"
            " or a multiple of them with enable_gqa=True",
        )


def _mask(name: str, query: Any, key: Any, value: Any, mask: Any) -> None:
    if mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise ArgumentError(
            f"weft.ops.{name}: attn_mask has dtype {mask.dtype}, which is not supported",
            got=str(mask.dtype),
            allowed=f"bool, float32 or {query.dtype}".replace("torch.", ""),
        )
    lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    heads = max([*query.shape[-3:-2], *key.shape[-3:-2], 1])
    want = (*lead, heads, query.shape[-2], key.shape[-2])
    have = (1,) * (len(want) - mask.dim()) + tuple(mask.shape)
    if len(have) > len(want) or any(h not in (1, w) for h, w in zip(have, want, strict=False)):
        raise ArgumentError(
            f"weft.ops.{name}: attn_mask has shape {tuple(mask.shape)}, "
            f"expected one that broadcasts to {want}",
            next="give it the shape of the scores, or sizes of 1",
        )
