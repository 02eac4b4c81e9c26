"""Move elementwise operations next to the first operation that reads them, to be one kernel.

A graph computes a value as soon as its operands are known: the activation of a gate before the
product that it is multiplied with. A kernel of its own would write it to memory in between.
"""

from __future__ import annotations

from fractions import Fraction

import torch
from torch.fx import Graph, Node

from weft.ops.fuse.group import is_free
from weft.torch_backend.operands import size_of
from weft.torch_backend.updates import is_elementwise

NEAR = 24
"""Operations over which several operands may stay in memory instead of one result."""


def delay(graph: Graph) -> None:
    """Change the order of a graph's operations."""
    place = {n: Fraction(i) for i, n in enumerate(graph.nodes)}
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or not is_elementwise(node) or not node.users:
            continue
        first = min(node.users, key=place.__getitem__)
        if node.next is first or not _joins(node, first):
            continue
        if _held(node) <= size_of(node) or place[first] - place[node] <= NEAR:
            first.prepend(node)
            place[node] = (place[node.prev] + place[first]) / 2


def _joins(node: Node, reader: Node) -> bool:
    """True if a kernel may compute both; a result with fewer elements would be computed again."""
    if reader.op != "call_function" or not is_elementwise(reader):
        return False
    value, result = node.meta.get("val"), reader.meta.get("val")
    both = isinstance(value, torch.Tensor) and isinstance(result, torch.Tensor)
    return both and value.shape == result.shape


def _held(node: Node) -> int:
    """Bytes of the operands that stay in memory for the operation, without small ones."""
    sizes = [size_of(n) for n in node.all_input_nodes if not is_free(n)]
    return sum(size for size in sizes if size > size_of(node) // 16)
