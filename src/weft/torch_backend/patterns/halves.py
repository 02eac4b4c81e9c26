"""Recognise the halves of rows in Dynamo's graphs, and rows that have the same half twice."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

_VIEWS = (
    operator.getitem, "chunk", torch.chunk, "split", torch.split, "narrow", torch.narrow,
    "tensor_split", torch.tensor_split,
)  # fmt: skip
"""Calls whose results are parts of their operand."""
_SAME = (
    "cos", torch.cos, "sin", torch.sin, "to", "float", "half", "bfloat16", "type_as", "contiguous",
    "detach", "clone",
)  # fmt: skip
"""Calls of one tensor that change each element in the same way."""
_SCALED = (operator.mul, torch.mul, "mul", operator.truediv, torch.div, "div")
_UNSQUEEZES = ("unsqueeze", torch.unsqueeze)
_JOINS = (torch.cat, torch.concat, torch.concatenate)


def half_of(node: Any) -> tuple[Node, int] | None:
    """(a tensor, 0 or 1) for the first or the second half of its rows; None for another value."""
    source = node
    while isinstance(source, Node) and source.target in _VIEWS and source.args:
        source = source.args[0]
        whole, part = _value(source), _value(node)
        if isinstance(whole, torch.Tensor) and isinstance(part, torch.Tensor):
            number = _half(whole, part)
            return None if number is None else (source, number)
    return None


def _half(whole: Any, part: Any) -> int | None:
    """The number of the half that a view is, by its place in memory."""
    n = part.shape[-1] if part.dim() else 0
    if not n or 2 * n != whole.shape[-1] or part.shape[:-1] != whole.shape[:-1]:
        return None
    if part.stride() != whole.stride():
        return None
    moved = part.storage_offset() - whole.storage_offset()
    if moved == 0:
        return 0
    return 1 if moved == n * whole.stride(-1) else None


def doubled(node: Any) -> tuple[Node, ...]:
    """The values from a tensor back to the `cat((a, a), -1)` by which its rows have equal halves.

    Empty if they are not known to be equal.
    """
    chain: list[Node] = []
    while isinstance(node, Node) and node.args:
        chain.append(node)
        if node.target in _JOINS:
            return tuple(chain) if _joins_twice(node) else ()
        if not _keeps_rows(node):
            return ()
        node = node.args[0]
    return ()


def _joins_twice(node: Node) -> bool:
    parts: Any = node.args[0]
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    last = dim in (-1, _value(node).dim() - 1)
    return last and len(parts) == 2 and parts[0] is parts[1]


def _keeps_rows(node: Node) -> bool:
    """True if a call treats all elements of a row of its first operand in the same way."""
    if node.target in _SAME:
        return True
    if node.target in _SCALED:
        return len(node.args) == 2 and isinstance(node.args[1], int | float)
    rank = _value(node).dim() if isinstance(_value(node), torch.Tensor) else 0
    if node.target in _UNSQUEEZES:
        dim: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        return isinstance(dim, int) and dim not in (-1, rank - 1)
    if node.target is not operator.getitem:
        return False
    return _indexes_rows(_value(node.args[0]), node.args[1])


def _indexes_rows(before: Any, index: Any) -> bool:
    """True if an index chooses whole rows."""
    indices = list(index) if isinstance(index, tuple) else [index]
    while indices and indices[-1] == slice(None):
        indices.pop()
    masks = [
        v for v in map(_value, indices) if isinstance(v, torch.Tensor) and v.dtype is torch.bool
    ]
    if not isinstance(before, torch.Tensor) or masks or any(i is Ellipsis for i in indices):
        return False
    return bool(sum(i is not None for i in indices) < before.dim())


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, Node) else None
