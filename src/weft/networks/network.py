"""A network by its name and size, with its batches and its loss: one interface for all."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

import weft.networks
from weft.errors import ArgumentError
from weft.networks.draws import Draws


@dataclass(frozen=True)
class Batch:
    """The inputs of a network, and what its loss compares the result with."""

    inputs: tuple[torch.Tensor, ...]
    target: torch.Tensor


@dataclass(frozen=True)
class Network:
    """A network with its weights.

    kind    the Python module that defines it: SIZES, MODULE, draw and loss
    config  its sizes
    module  the network itself
    """

    name: str
    size: str
    kind: ModuleType
    config: Any
    module: torch.nn.Module

    @property
    def images(self) -> bool:
        """True if its first input are images, which have memory formats."""
        return self.batch(1).inputs[0].dim() == 4

    def batch(
        self,
        count: int,
        length: int = 0,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Batch:
        """Draw a batch.

        length  tokens of a text, or the side of an image; 0: the network's own
        dtype   of inputs that are no integers
        """
        drawn = self.kind.draw(self.config, Draws(seed), count, length)
        *inputs, target = (t.to(device, dtype if t.is_floating_point() else t.dtype) for t in drawn)
        return Batch(tuple(inputs), target)

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of a result of `module`."""
        found: torch.Tensor = self.kind.loss(output, target)
        return found


def names() -> list[str]:
    """The networks that there are."""
    found = (m.name for m in pkgutil.iter_modules(weft.networks.__path__) if not m.ispkg)
    return [name for name in found if hasattr(_kind(name), "SIZES")]


def sizes(name: str) -> list[str]:
    """The sizes of a network; the first one is the default."""
    _known("there is no such network", name, names())
    return list(_kind(name).SIZES)


def network(
    name: str, size: str = "", *, seed: int = 0, device: torch.device | str = "cpu"
) -> Network:
    """Make a network on a device; equal seeds give equal weights there."""
    every = sizes(name)
    size = size or every[0]
    _known(f"{name} has no such size", size, every)
    kind = _kind(name)
    config = kind.SIZES[size]
    where = torch.device(device)
    with torch.random.fork_rng([where] if where.type == "cuda" else []), where:
        torch.manual_seed(seed)
        module = kind.MODULE(config)
    return Network(name, size, kind, config, module)


def _kind(name: str) -> ModuleType:
    return importlib.import_module(f"{weft.networks.__name__}.{name}")


def _known(what: str, name: str, every: Iterable[str]) -> None:
    allowed = list(every)
    if name not in allowed:
        near = difflib.get_close_matches(name, allowed, 1)
        raise ArgumentError(
            what,
            got=name,
            allowed=", ".join(allowed),
            next=f"did you mean '{near[0]}'?" if near else "",
        )
