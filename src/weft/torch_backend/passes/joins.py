"""Have attention write the gradients of queries, keys and values side by side.

One linear layer makes all three in many models. The gradient of its result has theirs as parts,
which a copy would join.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.torch_backend.writer import Writer

aten = torch.ops.aten

_JOIN, _ATTENTION = "weft::cat_3", "weft::attention_backward"
_JOINED = "attention_backward_joined"
_VECTOR = 16
"""Bytes that rows of a head are a multiple of, so that all parts begin where vectors do."""


def join(graph: Graph) -> None:
    """Replace attention's gradients that nothing but a copy reads which joins them."""
    for node in list(graph.nodes):
        if _name(node) == _JOIN:
            _replace(graph, node)
    graph.eliminate_dead_code()


def _replace(graph: Graph, node: Node) -> None:
    *parts, dim, _ = node.args
    items = [i.args for part in parts if (i := _item(part, node)) is not None]
    attention: Any = items[0][0] if items else None
    if items != [(attention, i) for i in range(len(parts))]:
        return
    if _name(attention) != _ATTENTION or not _fits(attention, node, dim):
        return
    library.function(_JOINED)
    with graph.inserting_before(attention):
        op = getattr(torch.ops.weft, _JOINED).default
        made = Writer(graph)(op, *attention.args, **attention.kwargs)
    made.meta = {**attention.meta, "val": made.meta["val"]}
    with graph.inserting_before(node):
        whole = Writer(graph)(aten.view.default, made, list(node.meta["val"].shape))
    node.replace_all_uses_with(whole)
    graph.erase_node(node)


def _name(node: Any) -> str:
    return str(getattr(getattr(node.target, "_schema", None), "name", ""))


def _item(part: Any, reader: Node) -> Node | None:
    """The result [batch, heads, rows, elements] of which a value is [batch, rows, heads elements].

    Heads may have a dimension of their own. None where others read it, and for other values.
    """
    turned = part
    if turned.target in (aten.view.default, aten._unsafe_view.default, aten.reshape.default):
        turned = turned.args[0]
    item = turned.args[0] if turned.args else None
    if not isinstance(item, Node) or item.target is not operator.getitem:
        return None
    chain = dict.fromkeys((item, turned, part, reader))
    if any(list(n.users) != [u] for n, u in itertools.pairwise(chain)):
        return None
    value, result = part.meta["val"], item.meta["val"]
    if result.dim() != 4 or not _turns(turned):
        return None
    batch, heads, rows, each = result.shape
    shapes = (batch, rows, heads * each), (batch, rows, heads, each)
    return item if tuple(value.shape) in shapes else None


def _turns(node: Node) -> bool:
    """True if an operation exchanges the second and the third of four dimensions."""
    if node.target is aten.transpose.int:
        return {d % 4 for d in node.args[1:]} == {1, 2}
    return node.target is aten.permute.default and [d % 4 for d in node.args[1]] == [0, 2, 1, 3]


def _fits(attention: Any, node: Node, dim: int) -> bool:
    """True if the op makes the memory of a join: parts of each row behind each other."""
    schema = attention.target._schema.arguments
    given = dict(zip((a.name for a in schema), attention.args, strict=False))
    values = [n.meta["val"] for n in attention.users]
    joined = node.meta["val"]
    rows = {v.shape[2] for v in values}
    vectors = all(v.shape[3] * v.element_size() % _VECTOR == 0 for v in values)
    whole = joined.numel() == sum(v.numel() for v in values) and joined.is_contiguous()
    behind = given["cu_seq_q"] is None and dim % joined.dim() == 2
    return behind and len(rows) == 1 and vectors and whole
