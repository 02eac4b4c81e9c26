"""Values and arguments of the nodes of Dynamo's graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node


def value_of(node: Any) -> Any:
    """The example of a value; None of a constant."""
    return node.meta.get("example_value") if isinstance(node, Node) else None


def alike(*nodes: Any) -> bool:
    """True if all values are tensors of one shape, dtype and device."""
    values = [value_of(n) for n in nodes]
    if not all(isinstance(v, torch.Tensor) for v in values):
        return False
    first = values[0]
    return all(
        v.shape == first.shape and v.dtype is first.dtype and v.device == first.device
        for v in values
    )


def arguments(node: Node, *names: str) -> dict[str, Any]:
    """The arguments of a call of a function with these parameters."""
    return dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
