"""Tensors that a graph changes, such as running statistics: kernels write to them directly.

AOTAutograd ends a graph with copies of new contents into such inputs. The operations that compute
small ones, or small results, move to the end, where those of one shape become one kernel, which has
the inputs for results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core.plan import Argument, Map, Plan, Pointer
from weft.ops.fuse.group import FusionGroup, Other, Step, inputs_of

COPY = torch.ops.aten.copy_.default
SMALL = 1 << 16
"""Elements of a tensor that may wait for the end of the graph."""


def sink(graph: Graph) -> None:
    """Move the operations to the end that only compute small results or new contents of inputs.

    Such as the gradients of biases, which autocast converts one by one after the products.
    """
    output = next(n for n in graph.nodes if n.op == "output")
    last = {output}
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function":
            continue
        of_last = bool(node.users) and all(u in last for u in node.users)
        # All copies, in their order: an operation may read a part of what a large one changes.
        if node.target is COPY or (of_last and _is_small(node) and is_elementwise(node)):
            last.add(node)
    for node in [n for n in graph.nodes if n in last and n is not output]:
        output.prepend(node)


def is_elementwise(node: Node) -> bool:
    """True if each element of the result follows from the same elements of the operands."""
    casts = torch.ops.aten._to_copy.default, torch.ops.prims.convert_element_type.default
    return node.target in casts or torch.Tag.pointwise in getattr(node.target, "tags", ())


def _is_small(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.numel() <= SMALL


def written(steps: Sequence[Step]) -> tuple[list[Step], dict[Node, Node]]:
    """Leave out copies into inputs that a kernel can write to; return which result is which input.

    The last step that reads an input must be the kernel itself, which reads each element before it
    is written.
    """
    place = {n: i for i, s in enumerate(steps) if isinstance(s, FusionGroup) for n in s.results}
    into: dict[Node, Node] = {}
    for number, step in enumerate(steps):
        if not isinstance(step, Other) or step.node.target is not COPY:
            continue
        target, value = step.node.args[:2]
        if not isinstance(target, Node) or not isinstance(value, Node) or value not in place:
            continue
        at = place[value]
        group = steps[at]
        readers = [i for i, s in enumerate(steps) if i != number and target in _read(s)]
        alone = set(value.users) == {step.node} and not step.node.users
        if alone and all(i <= at for i in readers) and _fits(group, value, target, into):
            into[value] = target
    left = [s for s in steps if not (isinstance(s, Other) and _is_done(s.node, into))]
    return left, into


def _is_done(node: Node, into: dict[Node, Node]) -> bool:
    return node.target is COPY and node.args[1] in into


def _read(step: Step) -> list[Node]:
    return step.arguments if isinstance(step, FusionGroup) else inputs_of(step.node)


def _fits(group: Any, value: Node, target: Node, into: dict[Node, Node]) -> bool:
    new, old = value.meta["val"], target.meta["val"]
    same = new.dtype is old.dtype and new.shape == old.shape
    whole = not group.k and new.is_contiguous() and old.is_contiguous()
    return bool(same and whole and group.full(value) and target not in into.values())


def in_place(plan: Plan, count: int, outputs: Sequence[int]) -> Plan:
    """The plan whose outputs of these numbers are inputs, after the `count` others."""
    kept = [i for i in range(len(plan.outputs)) if i not in outputs]
    moved = [*range(count), *[0] * (len(plan.outputs) + len(plan.scratch))]
    for number, output in enumerate(outputs):
        moved[count + output] = count + number
    for number, output in enumerate([*kept, *range(len(plan.outputs), len(moved) - count)]):
        moved[count + output] = count + len(outputs) + number
    steps = tuple(
        replace(s, args=tuple(_moved(argument, moved) for argument in s.args)) for s in plan.steps
    )
    return Plan(steps, tuple(plan.outputs[i] for i in kept), plan.scratch)


def _moved(argument: Argument, moved: Sequence[int]) -> Argument:
    if isinstance(argument, Pointer):
        return argument._replace(number=moved[argument.number])
    if isinstance(argument, Map):
        at = argument.pointer
        return argument._replace(pointer=at._replace(number=moved[at.number]))
    return argument
