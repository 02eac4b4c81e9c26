"""Divide a traced graph into forward and backward passes, as AOTAutograd asks for."""

from __future__ import annotations

import operator
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._functorch import config
from torch.fx import Graph, GraphModule, Node

from weft.ops.fuse.groups import draws

aten = torch.ops.aten


def partition(module: GraphModule, inputs: Any, **options: Any) -> tuple[GraphModule, GraphModule]:
    """The graphs of both passes: PyTorch chooses what the forward pass saves.

    PyTorch would remove repeated operations with a part of inductor whose import takes longer than
    the partition itself.
    """
    if config.cse:
        remove_repeated(module.graph)
    with config.patch(cse=False):
        parts: tuple[GraphModule, GraphModule]
        parts = min_cut_rematerialization_partition(module, inputs, **options)
    return parts


def remove_repeated(graph: Graph) -> None:
    """Leave one of several operations that compute the same."""
    returned = _storages(next(n for n in graph.nodes if n.op == "output").all_input_nodes)
    first: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if _writes(node):
            first.clear()  # what is read from here on may be another value
        elif _is_repeatable(node) and not _storages([node]) & returned:
            kept = first.setdefault(_text(node.target, node.args, node.kwargs), node)
            if kept is not node:
                node.replace_all_uses_with(kept)
                graph.erase_node(node)


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.target is not operator.getitem and (schema is None or schema.is_mutable)


def _is_repeatable(node: Node) -> bool:
    """True if an operation gives the same whenever it is computed."""
    packet = getattr(node.target, "overloadpacket", None)
    return not draws(node) and packet not in (aten.empty, aten.empty_like, aten.empty_strided)


def _storages(nodes: list[Node]) -> set[int]:
    """The memory of values: a graph must not return one tensor where a program has two."""
    values = (n.meta.get("val") for n in nodes)
    return {v.untyped_storage()._cdata for v in values if isinstance(v, torch.Tensor)}


def _text(*values: Any) -> Any:
    """A key that is equal for equal arguments of equal types: 1, 1.0 and True are others."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, tuple | list):
            found.append((type(value).__name__, _text(*value)))
        elif isinstance(value, dict):
            found.append(("dict", _text(*value), _text(*value.values())))
        elif isinstance(value, float):
            found.append(("float", value.hex()))  # 0.0 and -0.0 are others
        elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            found.append(("symbol", str(value)))
        else:
            found.append((type(value), value))
    return tuple(found)
