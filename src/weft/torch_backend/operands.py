"""Values that the steps of a graph read and make."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from weft.ops.core.layouts import memory_order
from weft.ops.core.plan import Layout
from weft.ops.fuse.group import FusionGroup, Step, inputs_of, shape_of


def made_by(step: Step) -> list[Node]:
    """The values that a step makes."""
    return step.results if isinstance(step, FusionGroup) else [step.node]


def read_by(step: Step) -> list[Node]:
    """The values that a step reads."""
    if isinstance(step, FusionGroup):
        return [*step.arguments, *step.states]
    return inputs_of(step.node)


def order_of(group: FusionGroup) -> Any:
    """The memory order of a group's elements; None if only its operands have all of them."""
    first = next((n for n in group.nodes if shape_of(n) == group.space), None)
    return None if first is None else memory_order_of(first)


def memory_order_of(node: Node) -> Any:
    """The dimensions of a value by descending stride; None if it has gaps."""
    value = node.meta["val"]
    return memory_order(Layout(value.dtype, tuple(value.shape), tuple(value.stride()), 16))


def is_item(node: Node) -> bool:
    """True if a node is one of several results of an operation."""
    return node.target is operator.getitem


def size_of(node: Node) -> int:
    """Bytes of a value; 0 if it is not a tensor."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0
    return int(value.numel() * value.element_size())
