"""Add gradients of residual connections in the kernels of norms, whose ops take one more gradient.

Where a norm's operand is read beside the norm as well, its gradient is a sum: that of the norm's
rows and the other one. The op adds it before it stores the rows, and a pass over memory is saved.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

_NAMES = ("weft::layer_norm_backward", "weft::rms_norm_backward")
_ADD = torch.ops.aten.add.Tensor


def add_within(graph: Graph) -> None:
    """Replace sums of a norm's gradient and one that is known before by an argument of the op."""
    place = {n: i for i, n in enumerate(graph.nodes)}
    for node in graph.nodes:
        if getattr(getattr(node.target, "_schema", None), "name", "") not in _NAMES:
            continue
        schema = node.target._schema.arguments
        number = next(i for i, a in enumerate(schema) if a.name == "dtotal")
        rows = next((u for u in node.users if _is_first(u)), None)
        total = None if rows is None or len(rows.users) > 1 else next(iter(rows.users), None)
        if node.args[number] is not None or rows is None or total is None:
            continue
        other = _other(total, rows)
        if other is None or place[other] > place[node] or not _is_same(other, rows, total):
            continue
        node.update_arg(number, other)
        total.replace_all_uses_with(rows)
        graph.erase_node(total)


def _is_first(node: Node) -> bool:
    return node.target is operator.getitem and node.args[1] == 0


def _other(total: Node, rows: Node) -> Node | None:
    """The other operand of a sum without a factor."""
    if total.target is not _ADD or total.kwargs or rows not in total.args:
        return None
    other: Any = total.args[1] if total.args[0] is rows else total.args[0]
    return other if isinstance(other, Node) and other is not rows else None


def _is_same(*nodes: Node) -> bool:
    """True if all values have one shape, dtype and layout."""
    values = [n.meta["val"] for n in nodes]
    if not all(isinstance(v, torch.Tensor) for v in values):
        return False
    first = values[0]
    return all(
        v.shape == first.shape and v.dtype is first.dtype and v.stride() == first.stride()
        for v in values
    )
