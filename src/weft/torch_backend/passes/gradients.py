"""Store gradients of weights in float32 where they are converted to it, as under autocast.

A kernel would read what the product has rounded to 16 bits; the product has all digits.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.torch_backend.passes.casts import widens
from weft.torch_backend.writer import Writer

_WIDE = "matmul_wide"
_NAMES = {"weft::matmul": False, "weft::matmul_row_sums": True}
"""The ops, and whether they sum rows."""


def widen(graph: Graph) -> None:
    """Replace products of matrices that nothing but conversions to float32 reads."""
    for node in list(graph.nodes):
        sums = _NAMES.get(getattr(getattr(node.target, "_schema", None), "name", ""))
        if sums is not None and all(n.meta["val"].dim() == 2 for n in node.args[:2]):
            _replace(graph, node, sums)


def _replace(graph: Graph, node: Node, sums: bool) -> None:
    results = {u.args[1]: u for u in node.users} if sums else {0: node}
    if not node.users or not all(widens(u) for r in results.values() for u in r.users):
        return
    library.function(_WIDE)
    with graph.inserting_before(node):
        made = Writer(graph)(getattr(torch.ops.weft, _WIDE).default, *node.args[:2], sums)
    made.meta = {**node.meta, "val": made.meta["val"]}
    for number, result in results.items():
        casts: list[Any] = list(result.users)
        if not casts:
            continue
        with graph.inserting_after(made):
            item = graph.call_function(operator.getitem, (made, number))
        item.meta = {**result.meta, "val": made.meta["val"][number]}
        for cast in casts:
            cast.replace_all_uses_with(item)
            graph.erase_node(cast)
    for result in results.values():
        graph.erase_node(result)
    if sums:
        graph.erase_node(node)
