"""Limits the norm of all gradients of a model that is divided over ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from weft.distributed.parallel.group import Group
from weft.distributed.parallel.shards import Sharded
from weft.errors import ArgumentError
from weft.optim.clip import norm
from weft.optim.sharded import EPS


def clip_grad_norm_(model: torch.nn.Module, max_norm: float) -> torch.Tensor:
    """Scale gradients so that the norm of all ranks' parts is at most `max_norm`; return the norm.

    model  made by `parallelise`, or any with divided layers of one group

    The limit of an optimiser would be that of this rank's part, and other ranks would scale what
    all of them have, such as the weights of norms, by other factors.

    >>> model.loss(torch.tensor([[1, 2]]), torch.tensor([[2, 3]])).backward()
    >>> print(weft.distributed.parallel.clip_grad_norm_(model, 1.0) > 0)
    tensor(True)
    """
    if not max_norm > 0:
        allowed = "a positive number"
        raise ArgumentError("the largest norm is positive", got=str(max_norm), allowed=allowed)
    layers = [layer for layer in model.modules() if isinstance(layer, Sharded)]
    divided = {id(getattr(layer, name)) for layer in layers for name in layer.shards}
    group = layers[0].group if layers else Group()
    trained = [p for p in model.parameters() if p.grad is not None]
    parts = [p.grad for p in trained if id(p) in divided]
    others = [p.grad for p in trained if id(p) not in divided]
    with torch.no_grad():
        squares = [
            norm(grads, max_norm)[:1].square() if grads else None for grads in (parts, others)
        ]
        if group.world > 1 and squares[0] is not None:
            dist.all_reduce(squares[0], group=group.process)
        found = [square for square in squares if square is not None]
        if not found:
            return torch.tensor(0.0)
        total: torch.Tensor = torch.cat(found).sum().sqrt()
        torch._foreach_mul_([p.grad for p in trained], (max_norm / (total + EPS)).clamp(max=1.0))
    return total
