"""Differentiable exchanges between ranks: each has the backward pass of its mathematical function.

A tensor is *replicated* (equal on all ranks), *partial* (its sum over ranks is meant) or a *part*
of a larger one along a dimension. Gradients of replicated tensors are replicated (Shoeybi et al.,
Megatron-LM, 2019), those of parts are parts (Korthikanti et al., 2022).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from weft.distributed.parallel.group import Group

Exchange = Callable[[torch.Tensor], torch.Tensor]


class _Pair(torch.autograd.Function):  # type: ignore[misc]
    """One exchange forward and another one backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: Exchange, backward: Exchange) -> torch.Tensor:
        ctx.backward_exchange = backward
        return forward(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.backward_exchange(grad), None, None


def _pair(group: Group, x: torch.Tensor, forward: Any, backward: Any, *where: int) -> torch.Tensor:
    if group.world == 1:
        return x
    ways = (functools.partial(way, group, *where) for way in (forward, backward))
    found: torch.Tensor = _Pair.apply(x, *ways)
    return found


# ---- plain exchanges ---------------------------------------------------------------------------
def _same(group: Group, x: torch.Tensor) -> torch.Tensor:
    return x.view_as(x)


def _sum(group: Group, x: torch.Tensor) -> torch.Tensor:
    total: torch.Tensor = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group.process)
    return total


def _divide(group: Group, x: torch.Tensor) -> torch.Tensor:
    return x / group.world


def _gather(group: Group, dim: int, x: torch.Tensor) -> torch.Tensor:
    first = x.movedim(dim, 0).contiguous()
    every = first.new_empty(group.world * first.shape[0], *first.shape[1:])
    dist.all_gather_into_tensor(every, first, group=group.process)
    found: torch.Tensor = every.movedim(0, dim).contiguous()
    return found


def _scatter_sum(group: Group, dim: int, x: torch.Tensor) -> torch.Tensor:
    whole = x.movedim(dim, 0).contiguous()
    part = whole.new_empty(whole.shape[0] // group.world, *whole.shape[1:])
    dist.reduce_scatter_tensor(part, whole, group=group.process)
    found: torch.Tensor = part.movedim(0, dim).contiguous()
    return found


def _part(group: Group, dim: int, x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = x.chunk(group.world, dim)[group.rank].contiguous()
    return found


# ---- differentiable ones -----------------------------------------------------------------------
def copied(group: Group, x: torch.Tensor) -> torch.Tensor:
    """A replicated tensor that each rank uses in its own way: gradients are added up."""
    return _pair(group, x, _same, _sum)


def summed(group: Group, x: torch.Tensor) -> torch.Tensor:
    """The sum of a partial tensor, on all ranks."""
    return _pair(group, x, _sum, _same)


def divided(group: Group, x: torch.Tensor) -> torch.Tensor:
    """A replicated tensor as a partial one; its gradient is that of the sum."""
    return _pair(group, x, _divide, _same)


def gathered(group: Group, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """All parts along a dimension, for a use that is the same on all ranks."""
    return _pair(group, x, _gather, _part, dim)


def gathered_sequence(group: Group, x: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """All parts along a dimension, which each rank uses in its own way."""
    return _pair(group, x, _gather, _scatter_sum, dim)


def scattered_sum(group: Group, x: torch.Tensor, dim: int = 1) -> torch.Tensor:
    """This rank's part of the sum of a partial tensor."""
    group.share(x.shape[dim], "tokens")
    return _pair(group, x, _scatter_sum, _gather, dim)
