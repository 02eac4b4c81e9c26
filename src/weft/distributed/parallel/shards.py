"""Divides weights over ranks and joins them, to and from the state dict of an ordinary model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from weft.distributed.parallel.group import Group
from weft.errors import ArgumentError


@dataclass(frozen=True)
class Shard:
    """The division of a weight along a dimension.

    sections  sizes along `dim`, each divided over all ranks: queries, keys and values of a layer.
              Parts have equal sizes; what the last rank lacks is filled up with zeros.
    """

    dim: int
    sections: tuple[int, ...]

    def cut(self, whole: torch.Tensor, group: Group) -> torch.Tensor:
        """This rank's part of a weight."""
        parts = [
            _padded(section, self.dim, group.world).chunk(group.world, self.dim)[group.rank]
            for section in whole.split(self.sections, self.dim)
        ]
        found: torch.Tensor = torch.cat(parts, self.dim).contiguous()
        return found

    def join(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """A weight from the parts of all ranks."""
        world = len(parts)
        sizes = [-(-section // world) for section in self.sections]
        by_section = zip(*(part.split(sizes, self.dim) for part in parts), strict=True)
        joined = [
            torch.cat(of_ranks, self.dim).narrow(self.dim, 0, section)
            for of_ranks, section in zip(by_section, self.sections, strict=True)
        ]
        found: torch.Tensor = torch.cat(joined, self.dim).contiguous()
        return found


def _padded(x: torch.Tensor, dim: int, world: int) -> torch.Tensor:
    missing = -x.shape[dim] % world
    if not missing:
        return x
    shape = [*x.shape]
    shape[dim] = missing
    return torch.cat((x, x.new_zeros(shape)), dim)


class Sharded(torch.nn.Module):  # type: ignore[misc]
    """A layer with divided weights; `shards` has the division of each by name."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group
        self.shards: dict[str, Shard] = {}

    def _divide(self, name: str, whole: torch.Tensor | None, shard: Shard) -> None:
        """Make this rank's part of a weight a parameter."""
        part = None if whole is None else torch.nn.Parameter(shard.cut(whole.detach(), self.group))
        self.register_parameter(name, part)
        if part is not None:
            self.shards[name] = shard


def load_whole(model: torch.nn.Module, state: Mapping[str, Any]) -> None:
    """Load the state dict of the ordinary model into one whose weights are divided over ranks.

    model  made by `parallelise`, or any with divided layers
    state  all names of the ordinary model; each rank takes its parts

    >>> weft.distributed.parallel.load_whole(model, state)
    """
    divided = dict(_divided(model))
    ours = model.state_dict()
    if missing := sorted(ours.keys() ^ state.keys()):
        raise ArgumentError(
            "the state dict is that of another model",
            got=f"{missing[0]} is in one of them only",
            allowed=f"the {len(ours)} names of the model before it was divided",
        )
    parts = {
        name: divided[name][0].cut(value, divided[name][1]) if name in divided else value
        for name, value in state.items()
    }
    model.load_state_dict(parts)


def whole_state_dict(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The state dict of the ordinary model, on every rank; all ranks call this.

    model  made by `parallelise`, or any with divided layers

    >>> state = weft.distributed.parallel.whole_state_dict(model)
    >>> print(state["tokens.weight"].shape)
    torch.Size([61, 32])
    """
    divided = dict(_divided(model))
    return {
        name: _joined(value.detach(), *divided[name]) if name in divided else value.detach()
        for name, value in model.state_dict().items()
    }


def _joined(part: torch.Tensor, shard: Shard, group: Group) -> torch.Tensor:
    if group.world == 1:
        return shard.join([part])
    parts = [torch.empty_like(part) for _ in range(group.world)]
    dist.all_gather(parts, part.contiguous(), group=group.process)
    return shard.join(parts)


def _divided(model: torch.nn.Module) -> Iterator[tuple[str, tuple[Shard, Group]]]:
    """The divided weights of a model by their names in its state dict."""
    for prefix, layer in model.named_modules():
        if isinstance(layer, Sharded):
            for name, shard in layer.shards.items():
                yield f"{prefix}.{name}".removeprefix("."), (shard, layer.group)
