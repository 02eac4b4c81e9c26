"""Ulysses attention: ranks exchange heads for rows, so that each has whole rows of some heads.

The idea is that of DeepSpeed-Ulysses (Jacobs and others); rows that are gathered may be the shard
of a ring, as in USP (Fang and Zhao).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from weft.distributed.agreement import agree
from weft.distributed.arguments import Arguments, checked
from weft.distributed.blocks import check_layout
from weft.distributed.layouts import check_length, swapped
from weft.distributed.ring import alone, attention
from weft.distributed.transport import Peers
from weft.errors import ArgumentError

NAME = "ulysses_attention"
HEADS, ROWS = 1, 2
"""Dimensions of the tensors."""


def ulysses_attention(
    arguments: Sequence[Any], group: Any, ring_group: Any, check: bool, timeout: float | None
) -> torch.Tensor:
    """Compute attention of a sequence by all-to-all exchanges, alone or within a ring."""
    peers = Peers(NAME, group, timeout)
    ring = None if ring_group is None else Peers(NAME, ring_group, timeout)
    given = Arguments(*arguments)
    agree(peers, lambda: _checked(peers, ring, given), check)
    if ring is not None:
        agree(ring, lambda: _checked(peers, ring, given), check)
    given = given.lowered()
    repeats = max(1, peers.world // given.k.shape[HEADS])
    q, k, v = given.q, _repeated(given.k, repeats), _repeated(given.v, repeats)
    q, k, v = (_Swap.apply(x, peers, HEADS, ROWS) for x in (q, k, v))
    gathered = dataclasses.replace(given, q=q, k=k, v=v)
    out = alone(gathered) if ring is None else attention(ring, gathered)
    made: torch.Tensor = _Swap.apply(out, peers, ROWS, HEADS)
    return made


def _repeated(x: torch.Tensor, repeats: int) -> torch.Tensor:
    """The heads of keys or values, so that each rank has one."""
    return x if repeats == 1 else x.repeat_interleave(repeats, HEADS)


class _Swap(torch.autograd.Function):  # type: ignore[misc]
    """Divide one dimension among the ranks, and join their parts along another."""

    @staticmethod
    def forward(ctx: Any, x: Any, peers: Peers, divided: int, joined: int) -> Any:
        ctx.peers, ctx.dims = peers, (divided, joined)
        return _swap(x, peers, divided, joined)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dy: Any) -> Any:
        divided, joined = ctx.dims
        return _swap(dy, ctx.peers, joined, divided), None, None, None


def _swap(x: Any, peers: Peers, divided: int, joined: int) -> Any:
    return torch.cat(swapped(peers, list(x.chunk(peers.world, divided))), joined)


def _checked(peers: Peers, ring: Peers | None, given: Arguments) -> Mapping[str, object]:
    """Return what must be equal on all ranks; raise ArgumentError for invalid arguments."""
    check_layout(NAME, given.layout, peers.where)
    if ring is None and given.layout != "contiguous":
        raise ArgumentError(
            f"weft.distributed.{NAME}: layout {given.layout!r} needs a ring",
            where=peers.where,
            allowed="contiguous without ring_group",
            next="ring_group=..., or weft.distributed.ring_attention",
        )
    facts = checked(peers, dataclasses.replace(given, layout="contiguous"))
    if ring is not None:
        check_length(ring, given.layout, given.q.shape[ROWS] * peers.world * ring.world)
    queries, keys, world = given.q.shape[HEADS], given.k.shape[HEADS], peers.world
    if queries % world or (keys % world and world % keys):
        raise ArgumentError(
            f"weft.distributed.{NAME}: {queries} heads of queries and {keys} of keys cannot be"
            f" divided among {world} ranks",
            where=peers.where,
            allowed=f"multiples of {world}; or heads of keys that divide {world}",
            next="a smaller group, and ring_group for the other ranks",
        )
    return {**facts, "layout": given.layout}  # `facts` has that of the exchange
