"""Find calls of Dynamo's graphs that change tensors in place, so that no other may be moved."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch.fx import Node

_IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.setitem)


def changed(first: Node, last: Node, of: Collection[Node] | None = None) -> bool:
    """True if a call between two may change a tensor in place, so that none may be moved there.

    of  only these values and parts of them count
    """
    node = first.next
    while node is not last:
        if _changes(node) and not _counts(node) and (of is None or _is_part(node, of)):
            return True
        node = node.next
    return False


def _changes(node: Node) -> bool:
    if node.op not in ("call_function", "call_method"):
        return False  # inputs have names such as l_x_
    name = str(getattr(node.target, "__name__", node.target))
    changes = (name.endswith("_") and not name.endswith("__")) or node.target in _IN_PLACE
    return changes or bool(node.kwargs.get("inplace")) or "out" in node.kwargs


def _counts(node: Node) -> bool:
    """True if a call changes an integer, such as the number of batches that a norm has seen."""
    first = node.args[0] if node.args else None
    value = first.meta.get("example_value") if isinstance(first, Node) else None
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def _is_part(changing: Node, of: Collection[Node]) -> bool:
    """True if a call changes a view of one of these, by the first operands that it comes from."""
    node: Any = changing
    while isinstance(node, Node):
        if node in of:
            return True
        node = node.args[0] if node.args else None
    return False
