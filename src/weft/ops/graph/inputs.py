"""The arguments of a step: their key, which decides the graph of a call, and what is refused."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree

from weft.errors import CaptureError

FIXED = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, enum.Enum, type(None))
"""Types of arguments that a graph contains as they were: another value is another graph."""
OBJECTS = (torch.nn.Module, torch.optim.Optimizer)
"""Types of arguments whose contents `surroundings.py` watches."""


class Inputs(NamedTuple):
    """The arguments of a call.

    leaves  tensors, numbers and others, in order
    spec    the structure that they are from
    key     equal for calls that one graph can serve, as far as arguments decide it
    """

    leaves: list[Any]
    spec: Any
    key: tuple[Any, ...]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def call(self, function: Any, leaves: Sequence[Any] | None = None) -> Any:
        """Call a function with these arguments, or with others in their places."""
        given = self.leaves if leaves is None else list(leaves)
        args, options = _pytree.tree_unflatten(given, self.spec)
        return function(*args, **options)

    def labels(self) -> list[str]:
        """The name of each part of the key, for messages."""
        paths, _ = _pytree.tree_flatten_with_path(_pytree.tree_unflatten(self.leaves, self.spec))
        return ["the structure of the arguments", *(_label(path) for path, _ in paths)]


def inputs(args: Sequence[Any], options: dict[str, Any]) -> Inputs:
    """Read the arguments of a call; raise CaptureError for those that no graph can take."""
    leaves, spec = _pytree.tree_flatten((tuple(args), options))
    return Inputs(leaves, spec, (spec, *map(_part, leaves)))


def _part(leaf: Any) -> Any:
    """The part of the key for a leaf."""
    if isinstance(leaf, torch.Tensor):
        if leaf.requires_grad:
            raise CaptureError(
                "weft.graph: an argument requires a gradient, which would end in a copy of it",
                got=f"a tensor of shape {list(leaf.shape)}",
                next="let the step use the tensor without being given it, or pass x.detach()",
            )
        if leaf.layout is not torch.strided:
            raise CaptureError(
                "weft.graph: an argument is not a dense tensor",
                got=str(leaf.layout),
                next="pass x.to_dense()",
            )
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.device
    if isinstance(leaf, FIXED):
        return type(leaf), leaf
    if isinstance(leaf, OBJECTS):
        return id(leaf)
    raise CaptureError(
        "weft.graph: an argument may change without being seen",
        got=type(leaf).__name__,
        allowed="tensors, numbers, strings, modules, optimisers; lists, tuples and dicts of these",
        next="pass the tensors that are in it",
    )


def _label(path: Sequence[Any]) -> str:
    first, *rest = path[1:]
    name = f"argument {first.idx}" if hasattr(first, "idx") else f"argument '{first.key}'"
    return name + "".join(map(str, rest))
