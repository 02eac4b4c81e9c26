"""Store gradients of weights in float32 where they are converted to it, as under autocast.

A kernel would read what the product or the convolution has rounded to 16 bits; these have all
digits.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.torch_backend.passes.casts import widens
from weft.torch_backend.writer import Writer

_PRODUCT, _CONVOLUTION = "matmul_wide", "conv_backward_weight_wide"
_PRODUCTS = {"weft::matmul": False, "weft::matmul_row_sums": True}
"""The ops of products, and whether they sum rows."""


def widen(graph: Graph) -> None:
    """Replace products and gradients of filters that nothing but conversions to float32 reads."""
    for node in list(graph.nodes):
        name = getattr(getattr(node.target, "_schema", None), "name", "")
        sums = _PRODUCTS.get(name)
        if sums is not None and all(n.meta["val"].dim() == 2 for n in node.args[:2]):
            _replace(graph, node, sums)
        elif name == "weft::conv_backward_weight" and _is_widened([node]):
            made = _made(graph, node, _CONVOLUTION, *node.args, **node.kwargs)
            _leave(graph, node, made)


def _replace(graph: Graph, node: Node, sums: bool) -> None:
    results = {u.args[1]: u for u in node.users} if sums else {0: node}
    if not _is_widened(results.values()):
        return
    made = _made(graph, node, _PRODUCT, *node.args[:2], sums)
    for number, result in results.items():
        if not result.users:
            graph.erase_node(result)
            continue
        with graph.inserting_after(made):
            item = graph.call_function(operator.getitem, (made, number))
        item.meta = {**result.meta, "val": made.meta["val"][number]}
        _leave(graph, result, item)
    if sums:
        graph.erase_node(node)


def _is_widened(results: Collection[Node]) -> bool:
    """True if there are readers, and all convert to float32."""
    users = [u for r in results for u in r.users]
    return bool(users) and all(map(widens, users))


def _made(graph: Graph, node: Node, name: str, *args: Any, **kwargs: Any) -> Node:
    """A call of another op in the place of one."""
    library.function(name)
    with graph.inserting_before(node):
        made = Writer(graph)(getattr(torch.ops.weft, name).default, *args, **kwargs)
    made.meta = {**node.meta, "val": made.meta["val"]}
    return made


def _leave(graph: Graph, result: Node, wide: Node) -> None:
    """Put a result of float32 in the place of the conversions of one of 16 bits."""
    for cast in list(result.users):
        cast.replace_all_uses_with(wide)
        graph.erase_node(cast)
    graph.erase_node(result)
