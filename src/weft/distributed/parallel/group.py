"""The processes that share a model: a process group of PyTorch, or this process alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from weft.errors import ArgumentError


@dataclass(frozen=True)
class Group:
    """The processes that share a model.

    rank     number of this process among them
    world    how many there are; 1 needs no process group
    process  PyTorch's process group; None for the default one, or for one process alone
    """

    rank: int = 0
    world: int = 1
    process: Any = None

    def share(self, count: int, what: str) -> int:
        """The part of `count` things that each rank has; raise if the parts are not equal."""
        if count % self.world:
            raise ArgumentError(
                f"rank {self.rank}: the number of {what} is no multiple of the ranks",
                got=f"{count} {what} on {self.world} ranks",
                allowed=f"{what} in multiples of {self.world}",
                next="use another number of ranks",
            )
        return count // self.world

    def agree(self, what: str, mine: str) -> None:
        """Raise on every rank, and name those that differ, unless all have the same text."""
        if self.world == 1:
            return
        texts: list[Any] = [None] * self.world
        dist.all_gather_object(texts, mine, group=self.process)
        if other := [rank for rank, text in enumerate(texts) if text != texts[0]]:
            raise ArgumentError(
                f"rank {self.rank}: ranks have different {what}",
                got=f"rank {other[0]}: {texts[other[0]]}",
                allowed=f"as on rank 0: {texts[0]}",
                next="give all ranks the same model and inputs of the same shape",
            )


def group_of(given: Any = None) -> Group:
    """The group of a process group, a device mesh of one dimension, or None: all processes."""
    if isinstance(given, Group):
        return given
    if given is None and not (dist.is_available() and dist.is_initialized()):
        return Group()
    if hasattr(given, "mesh_dim_names"):  # a DeviceMesh
        if given.ndim != 1:
            raise ArgumentError(
                "a model is divided over one dimension of a device mesh",
                got=f"{given.ndim} dimensions",
                allowed="a mesh of one dimension",
                next='mesh["name"] selects one dimension',
            )
        given = given.get_group()
    process = given
    rank: int = dist.get_rank(process)
    if rank < 0:
        raise ArgumentError(
            "this process is not in the process group",
            got=f"rank {dist.get_rank()} of all processes",
            next="call this on the ranks of the group only",
        )
    return Group(rank, dist.get_world_size(process), process)


def described(tensors: Any) -> str:
    """Shapes and dtypes of tensors, to compare them between ranks."""
    return ", ".join(f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors)


def check_same_shape(group: Group, x: torch.Tensor) -> None:
    """Raise, and name the rank, if a tensor has different shapes or dtypes on the ranks."""
    group.agree("inputs", described([x]))
