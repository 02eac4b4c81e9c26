"""The contenders of `weft bench networks`: ways to run the same network."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any

import torch

from weft import nn, optim
from weft.errors import ArgumentError
from weft.ops.core import bind

BACKEND = "weft"
"""The name of weft's compiler in torch.compile."""
COMPILER = "weft.torch_backend"


@dataclass(frozen=True)
class Contender:
    """A way to run a network.

    converts  its layers become weft's
    compiles  options of torch.compile, if it is compiled
    updates   weft's optimiser updates the parameters
    captures  False: it makes its own CUDA graphs
    dear      only on request: it takes minutes to compile
    """

    converts: bool = False
    compiles: dict[str, Any] | None = field(default=None)
    updates: bool = False
    captures: bool = True
    dear: bool = False

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """The network with the layers of the contender."""
        converted: torch.nn.Module = nn.convert(module) if self.converts else module
        return converted

    def compiled(self, function: Any) -> Any:
        """A function as the contender runs it."""
        if self.compiles is None:
            return function
        _register()
        return torch.compile(function, dynamic=False, **self.compiles)

    def optimiser(self, module: torch.nn.Module, rate: float, fused: bool) -> torch.optim.Optimizer:
        """AdamW; `fused`: few launches for all parameters, whose state a graph can update."""
        parameters = list(module.parameters())
        if self.updates:
            made: torch.optim.Optimizer = optim.AdamW(parameters, lr=rate)
            return made
        return torch.optim.AdamW(parameters, lr=rate, fused=fused, capturable=fused)


CONTENDERS = {
    "eager": Contender(),
    "compile": Contender(compiles={}),
    "reduce-overhead": Contender(compiles={"mode": "reduce-overhead"}, captures=False),
    "max-autotune": Contender(compiles={"mode": "max-autotune"}, captures=False, dear=True),
    "weft": Contender(converts=True, updates=True),
    "weft compile": Contender(compiles={"backend": BACKEND}, updates=True),
    "weft reduce-overhead": Contender(
        compiles={"backend": BACKEND, "mode": "reduce-overhead"}, updates=True, captures=False
    ),
}


def _backends() -> list[str]:
    found: list[str] = torch._dynamo.list_backends(exclude_tags=())
    return found


def _register() -> None:
    """Name weft's compiler to torch.compile where weft runs from its sources, not installed."""
    if BACKEND not in _backends() and importlib.util.find_spec(COMPILER) is not None:
        compiler = bind.with_torch(COMPILER).compile_graph
        torch._dynamo.register_backend(compiler_fn=compiler, name=BACKEND)


def available() -> list[str]:
    """The contenders that this installation has; weft's compiler may be missing."""
    _register()
    backends = _backends()
    return [
        name
        for name, one in CONTENDERS.items()
        if (one.compiles or {}).get("backend", "inductor") in backends
    ]


def chosen(names: str, dear: bool) -> list[str]:
    """The contenders of a run: those that are named, or all that are not dear."""
    there = available()
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in there:
            known = ", ".join(there)
            raise ArgumentError("there is no such contender", got=name, allowed=known)
    return wanted or [name for name in there if dear or not CONTENDERS[name].dear]
