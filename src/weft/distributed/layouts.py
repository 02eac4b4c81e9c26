"""Divide a sequence among the ranks of a group, and join it again."""

from __future__ import annotations

from typing import Any

import torch

from weft.distributed.blocks import Ring, check_layout, parts_of
from weft.distributed.transport import Peers
from weft.errors import ArgumentError


def indices(layout: str, world: int, rank: int, length: int) -> torch.Tensor:
    """The positions of a rank's tokens in a sequence of `length`, in the order of its shard."""
    return torch.tensor(Ring(layout, world, length // world, False).positions(rank))


def check_length(peers: Peers, layout: str, length: int) -> None:
    """Raise ArgumentError for a sequence that the layout cannot divide into equal shards."""
    check_layout(peers.name, layout, peers.where)
    parts = parts_of(layout, peers.world)
    if length < 1 or length % parts:
        raise ArgumentError(
            f"weft.distributed.{peers.name}: a sequence of {length} tokens has no {layout} shards"
            f" for {peers.world} ranks",
            where=peers.where,
            got=f"{length} tokens",
            allowed=f"a multiple of {parts}",
            next=f"pad it to {max(1, -(-length // parts)) * parts} tokens",
        )


def positions(length: int, layout: str = "contiguous", group: Any = None) -> torch.Tensor:
    """Return the positions of this rank's tokens in a sequence of `length` tokens, as int64."""
    peers = Peers("positions", group)
    check_length(peers, layout, length)
    return indices(layout, peers.world, peers.rank, length)


def shard(
    x: torch.Tensor, layout: str = "contiguous", group: Any = None, dim: int = 2
) -> torch.Tensor:
    """Return this rank's tokens of a tensor that all ranks have whole."""
    peers = Peers("shard", group)
    _check_dim(peers, x, dim)
    check_length(peers, layout, x.shape[dim])
    mine = indices(layout, peers.world, peers.rank, x.shape[dim])
    return x.index_select(dim, mine.to(x.device))


def gather(
    x: torch.Tensor, layout: str = "contiguous", group: Any = None, dim: int = 2
) -> torch.Tensor:
    """Return the whole tensor, on every rank, of the shards that ranks have."""
    peers = Peers("gather", group)
    _check_dim(peers, x, dim)
    check_length(peers, layout, x.shape[dim] * peers.world)
    made: torch.Tensor = _Gather.apply(x, layout, peers, dim)
    return made


class _Gather(torch.autograd.Function):  # type: ignore[misc]
    """All shards on all ranks; the gradient of a shard is the sum of those of all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Any, layout: str, peers: Peers, dim: int) -> Any:
        ctx.layout, ctx.peers, ctx.dim = layout, peers, dim
        shards = swapped(peers, [x] * peers.world)
        whole = x.new_empty((*x.shape[:dim], x.shape[dim] * peers.world, *x.shape[dim:][1:]))
        for rank, part in enumerate(shards):
            at = indices(layout, peers.world, rank, whole.shape[dim])
            whole.index_copy_(dim, at.to(x.device), part)
        return whole

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dy: Any) -> Any:
        peers, dim = ctx.peers, ctx.dim
        every = [indices(ctx.layout, peers.world, r, dy.shape[dim]) for r in range(peers.world)]
        parts = [dy.index_select(dim, at.to(dy.device)) for at in every]
        return torch.stack(swapped(peers, parts)).sum(0), None, None, None


def swapped(peers: Peers, parts: list[torch.Tensor]) -> list[torch.Tensor]:
    """Send part n to rank n; return what the ranks have sent to this one, by their numbers."""
    others = [rank for rank in range(peers.world) if rank != peers.rank]
    like = parts[peers.rank]
    sends = [(rank, parts[rank]) for rank in others]
    receives = [
        (rank, torch.empty_like(like, memory_format=torch.contiguous_format)) for rank in others
    ]
    received = dict(zip(others, peers.exchange(sends, receives).wait(), strict=True))
    return [received.get(rank, like) for rank in range(peers.world)]


def _check_dim(peers: Peers, x: Any, dim: int) -> None:
    if not isinstance(x, torch.Tensor):
        raise ArgumentError(
            f"weft.distributed.{peers.name}: x is no tensor",
            where=peers.where,
            got=type(x).__name__,
        )
    if not 0 <= dim < x.dim():
        raise ArgumentError(
            f"weft.distributed.{peers.name}: x has no dimension {dim}",
            where=peers.where,
            got=f"shape {list(x.shape)}",
            allowed=f"0 to {x.dim() - 1}",
        )
