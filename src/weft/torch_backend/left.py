"""Warn once of what PyTorch computes in a compiled model, with the layers that it is in."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph

from weft.ops.core.native.trace import NAMESPACE
from weft.ops.fuse import table
from weft.ops.fuse.group import inputs_of
from weft.ops.fuse.groups import draws, refused
from weft.torch_backend.layers import place_of

BACKEND = 'torch.compile(backend="weft")'
MOVING = frozenset({
    "cat", "stack", "clone", "copy", "fill", "repeat", "flip", "roll", "tril", "triu",
    "constant_pad_nd", "index", "_unsafe_index", "index_select", "index_put", "gather",
    "scatter", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter",
    "slice_backward", "select_backward", "empty_like", "new_empty", "new_empty_strided",
    "full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones",
})  # fmt: skip
"""Operations that move or fill elements and compute none, of which there is no warning."""
MOST = 3
"""Layers that a warning names for one operation."""
_WARNED: set[str] = set()


def warn_once(text: str) -> None:
    """Warn of something that this process was not warned of yet."""
    if text not in _WARNED:
        _WARNED.add(text)
        warnings.warn(f"{BACKEND}: {text}", stacklevel=2)


def left_to_torch(graph: Graph, calls: Mapping[str, str], places: Mapping[str, list[str]]) -> str:
    """The warning of the operations of a traced graph that are left to PyTorch; "" without any.

    calls   functions that were left before the graph was traced, with the reason
    places  the layers that they are in
    """
    known = {place for each in places.values() for place in each}
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, why in calls.items():
        found[name, why] += places[name]
    for node in graph.nodes:
        why = _why(node) if node.op == "call_function" else ""
        place = place_of(node) if why else ""
        if why and place not in known:
            found[table.name_of(node.target), why].append(place)
    parts = [f"{name}{_in(each)}: {why}" for (name, why), each in found.items()]
    return f"PyTorch computes {'; '.join(parts)}" if parts else ""


def _why(node: Any) -> str:
    """The reason why PyTorch computes an operation; "" if weft does, or if it only moves data."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace == NAMESPACE:
        return ""
    if table.name_of(target) in MOVING or draws(node):
        return ""
    operands = (n.meta.get("val") for n in inputs_of(node))
    if not any(isinstance(x, torch.Tensor) for x in operands):
        return ""  # it makes data
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.numel() == 0:
        return ""
    views = any(r.alias_info is not None for r in target._schema.returns)
    return "" if views else refused(node)


def _in(places: list[str]) -> str:
    named = list(dict.fromkeys(filter(None, places)))
    more = f" and {len(named) - MOST} more" if len(named) > MOST else ""
    return f" in {', '.join(named[:MOST])}{more}" if named else ""
