"""A group of operations, which becomes one kernel, and what kernels ask of an operation.

A group has a space: the shape that its elements run through. Its values have the shape of the
space or one that is broadcast to it. With reductions, the last `k` dimensions of the space are a
row, and a block or a part of it computes a row; without, `k` is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from weft.ops.fuse import table
from weft.ops.fuse.masks import is_mask, states_of

Shape = tuple[int, ...]


@dataclass
class FusionGroup:
    """Operations of one kernel.

    space     its shape
    k         the number of dimensions, from the last, that reductions run along
    nodes     in order
    squeezed  values without the reduced dimensions, which `keepdim` would have kept as ones
    results   the values that others use
    """

    space: Shape
    k: int = 0
    nodes: list[Node] = field(default_factory=list)
    squeezed: set[Node] = field(default_factory=set)
    results: list[Node] = field(default_factory=list)

    @property
    def reduced(self) -> Shape:
        """The shape of a reduced value that keeps its dimensions."""
        return (*self.space[: len(self.space) - self.k], *[1] * self.k)

    @property
    def arguments(self) -> list[Node]:
        """The values from outside that the group reads, each once."""
        inside = set(self.nodes)
        found = (n for node in self.nodes for n in inputs_of(node))
        return [n for n in dict.fromkeys(found) if n not in inside and not is_free(n)]

    @property
    def masks(self) -> list[Node]:
        """The masks of dropout that the group uses, each once."""
        found = (n for node in self.nodes for n in inputs_of(node))
        return [n for n in dict.fromkeys(found) if is_mask(n)]

    @property
    def states(self) -> list[Node]:
        """The tensors with the starts of masks, which follow the arguments."""
        return states_of(self.masks)

    def full(self, node: Node) -> bool:
        """True if a value has the shape of the space."""
        return node not in self.squeezed and shape_of(node) == self.space

    def per_row(self, node: Node) -> bool:
        """True if a value has one element per row."""
        return self.k > 0 and (node in self.squeezed or shape_of(node) == self.reduced)

    @property
    def rows(self) -> int:
        return math.prod(self.space[: len(self.space) - self.k])

    @property
    def n(self) -> int:
        return math.prod(self.space[len(self.space) - self.k :])


@dataclass
class Other:
    """An operation that is not fused, and why."""

    node: Node
    why: str


Step = FusionGroup | Other


def shape_of(node: Node) -> Shape:
    return tuple(node.meta["val"].shape)


def dtype_of(node: Node) -> torch.dtype:
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype


def inputs_of(node: Node) -> list[Node]:
    return list(node.all_input_nodes)


def is_number(node: Node) -> bool:
    """True if all elements of a value are one number that the graph has."""
    if node.op != "call_function" or table.name_of(node.target) not in table.FILLS:
        return False
    position = table.FILLS[table.name_of(node.target)]
    return position is None or not isinstance(node.args[position], Node)


def is_free(node: Node) -> bool:
    """True if a kernel has a value without reading it."""
    return is_number(node) or is_mask(node)


def is_reduction(node: Node) -> bool:
    name = table.name_of(node.target)
    return name in table.REDUCTIONS or name in table.VARIANCES


def argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    """An argument of an operation, by position or by name."""
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)
