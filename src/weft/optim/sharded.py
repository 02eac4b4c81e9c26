"""Tensors that are divided over processes (PyTorch's DTensor, as FSDP makes them).

A kernel changes this process's part. The norm of gradients is that of all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from weft.errors import ArgumentError

EPS = 1e-6
"""As in torch.nn.utils.clip_grad_norm_."""
ORDERS: dict[float, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    2.0: (torch.square, torch.sqrt, "SUM"),
    1.0: (torch.abs, torch.abs, "SUM"),
    float("inf"): (torch.abs, torch.abs, "MAX"),
}
"""Order of a norm -> how a part's norm is changed before the exchange, and back; the exchange."""


def is_sharded(tensor: Any) -> bool:
    """True for a DTensor; plain tensors, which are compared in every step, differ by type."""
    return type(tensor) is not torch.Tensor and hasattr(tensor, "to_local")


def local(tensor: Any) -> Any:
    """This process's part of a tensor, in the same memory."""
    return tensor.detach().to_local() if is_sharded(tensor) else tensor


def norm_of_parts(
    grads: Sequence[Any], max_norm: float, order: float, norm: Callable[[Sequence[Any]], Any]
) -> torch.Tensor:
    """Two numbers, as `norm` of plain gradients returns them: the norm and the limiting factor."""
    parts: dict[Any, list[Any]] = {}
    for grad in grads:
        parts.setdefault(_exchanges(grad), []).append(local(grad))
    before, after, exchange = ORDERS[order]
    found = []
    for (mesh, dims), some in parts.items():
        number = before(norm(some)[:1])
        for dim in dims:
            dist.all_reduce(number, getattr(dist.ReduceOp, exchange), mesh.get_group(dim))
        found.append(number)
    every = torch.cat(found)
    whole = after(every.sum() if exchange == "SUM" else every.max())
    return torch.stack((whole, (max_norm / (whole + EPS)).clamp(max=1.0)))


def _exchanges(grad: Any) -> tuple[Any, tuple[int, ...]]:
    """The device mesh of a gradient, and the dimensions over which its parts are divided."""
    if not is_sharded(grad):
        return None, ()
    if any(placement.is_partial() for placement in grad.placements):
        raise ArgumentError(
            "weft.optim: a gradient is not added up yet",
            got=str(grad.placements),
            allowed="Shard and Replicate",
            next="grad.redistribute(placements=[Shard(0)])",
        )
    dims = (i for i, placement in enumerate(grad.placements) if placement.is_shard())
    return grad.device_mesh, tuple(dims)
