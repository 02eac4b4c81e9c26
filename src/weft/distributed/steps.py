"""Compute one step of a ring: attention of a block, its gradients, and their sums."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from weft.distributed.blocks import Block
from weft.ops.core import library


class Saved(NamedTuple):
    """The operands of gradients: `out` and `lse` are of all keys."""

    dout: Any
    q: Any
    k: Any
    v: Any
    out: Any
    lse: Any
    scale: float | None


def attend(q: Any, pair: Sequence[Any], block: Block, scale: float | None) -> tuple[Any, Any]:
    """Attention of the block's queries over its keys, and the logarithms of the sums.

    pair  the keys and values of a rank
    """
    k, v = pair
    shared = q.shape[1] != k.shape[1]
    if block.starts:
        starts, longest = packed(block, q.device)
        rows = (_by_row(x) for x in (q, k, v))
        out, lse = library.call("attention_varlen_lse")(
            *rows, starts, starts, longest, longest, block.causal, scale, shared
        )
        return out.transpose(0, 1)[None], lse[None]
    keys = (_part(x, block.first_key, block.keys) for x in (k, v))
    made: tuple[Any, Any] = library.call("attention_lse")(
        _part(q, block.first_query, block.queries), *keys, None, 0.0, block.causal, scale, shared
    )
    return made


def merge(out: Any, lse: Any, part: Any, part_lse: Any, block: Block) -> None:
    """Merge the result of a block into that of all keys so far, in place."""
    of_queries = slice(block.first_query, block.first_query + block.queries)
    library.call("attention_merge")(out[:, :, of_queries], lse[:, :, of_queries], part, part_lse)


def gradients(saved: Saved, pair: Sequence[Any], block: Block) -> tuple[Any, Any, Any]:
    """Gradients of the block's queries, keys and values: their weights are known by `lse`."""
    k, v = pair
    shared = saved.q.shape[1] != k.shape[1]
    backward = library.call("attention_backward")
    fixed = (block.causal, saved.scale, shared, 0.0, 0, 0, None)
    if block.starts:
        starts, longest = packed(block, k.device)
        dout, q, k, v, out = (_by_row(x) for x in (saved.dout, saved.q, k, v, saved.out))
        lse = saved.lse[0].contiguous()
        ragged = (None, None, starts, starts, longest, longest)
        made = backward(dout, None, q, k, v, out, lse, *ragged, *fixed)
        return tuple(x.transpose(0, 1)[None] for x in made)
    of_queries = (saved.dout, saved.q, saved.out, saved.lse)
    dout, q, out, lse = (_part(x, block.first_query, block.queries) for x in of_queries)
    k, v = (_part(x, block.first_key, block.keys) for x in (k, v))
    found: tuple[Any, Any, Any] = backward(
        dout, None, q, k, v, out, lse.contiguous(), None, None, None, None, 0, 0, *fixed
    )
    return found


def add(total: Any, part: Any, first: int) -> None:
    """Add a part to rows from `first` on, in place."""
    total[:, :, first : first + part.shape[2]] += part


def packed(block: Block, device: Any) -> tuple[Any, int]:
    """The starts of a block's sequences as kernels take them, and the longest length."""
    longest = max(b - a for a, b in itertools.pairwise(block.starts))
    return torch.tensor(block.starts, dtype=torch.int32, device=device), longest


def _part(x: Any, first: int, count: int) -> Any:
    return x.narrow(2, first, count)


def _by_row(x: Any) -> Any:
    """[1, heads, rows, elements] as [rows, heads, elements]."""
    return x[0].transpose(0, 1)
