"""Rules for `torch.vmap`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from weft.errors import ArgumentError

Rule = Callable[..., tuple[Any, Any]]
"""torch's signature: (info, in_dims, *args) -> (outputs, batch dimensions)."""


def rule(op: str, call: Callable[..., Any], declared: str | Rule) -> Rule:
    """The declared rule, by name or as a function."""
    if not isinstance(declared, str):
        return declared
    if declared not in RULES:
        raise ArgumentError(
            f"{op}: no such rule for vmap",
            got=repr(declared),
            allowed=f"{', '.join(map(repr, RULES))}, or a function (info, in_dims, *args)",
        )
    chosen = RULES[declared]
    return lambda info, in_dims, *args: chosen(call, info.batch_size, in_dims, args)


def _leading(call: Callable[..., Any], size: int, dims: Any, args: Any) -> tuple[Any, Any]:
    """Put the batch in front as one more dimension: for elementwise and row-wise ops."""

    def front(value: Any, dim: int | None) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        moved = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
        return moved.contiguous()

    out = call(*map(front, args, dims))
    return out, tuple(0 for _ in out) if isinstance(out, tuple | list) else 0


def _loop(call: Callable[..., Any], size: int, dims: Any, args: Any) -> tuple[Any, Any]:
    """One call per batch element: correct for every op, but slow."""

    def pick(value: Any, dim: int | None, i: int) -> Any:
        # The dimension of a list is a list.
        return value.select(dim, i).contiguous() if isinstance(dim, int) else value

    each = [call(*(pick(v, d, i) for v, d in zip(args, dims, strict=True))) for i in range(size)]
    if isinstance(each[0], tuple | list):
        stacked = tuple(torch.stack(list(parts)) for parts in zip(*each, strict=True))
        return stacked, tuple(0 for _ in stacked)
    return torch.stack(each), 0


RULES: Mapping[str, Callable[..., tuple[Any, Any]]] = {"leading": _leading, "loop": _loop}
