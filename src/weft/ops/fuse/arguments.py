"""The arguments of a call: its tensors, and the rest, which a program is made for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from weft.errors import ArgumentError


class Arguments(NamedTuple):
    """The arguments of a call without its tensors: `leaves` has None in the place of each.

    shape  how torch's pytree joins the leaves to arguments; None: they are the arguments
    """

    leaves: tuple[Any, ...]
    places: tuple[int, ...]
    shape: Any

    def call(self, function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        """Call a function with these arguments and some tensors."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        if self.shape is None:
            return function(*leaves)
        args, kwargs = pytree.tree_unflatten(leaves, self.shape)
        return function(*args, **kwargs)


def arguments_of(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Arguments, list[torch.Tensor]]:
    """The arguments of a call of the function `name`, apart from its tensors, and these."""
    leaves, shape = _flat(args, kwargs)
    tensors = [a for a in leaves if isinstance(a, torch.Tensor)]
    if not tensors:
        raise ArgumentError(
            f"weft.fuse: '{name}' was called without a tensor",
            got=", ".join(type(a).__name__ for a in leaves) or "no arguments",
            allowed="at least one tensor among the arguments",
        )
    rest = Arguments(
        tuple(None if isinstance(a, torch.Tensor) else a for a in leaves),
        tuple(i for i, a in enumerate(leaves) if isinstance(a, torch.Tensor)),
        shape,
    )
    return rest, tensors


def _flat(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], Any]:
    """The leaves of the arguments, and how they are joined; None: the leaves are the arguments."""
    if not kwargs and all(isinstance(a, torch.Tensor | float | int) for a in args):
        return args, None
    leaves, shape = pytree.tree_flatten((args, kwargs))
    return leaves, shape
