"""Divide a graph into steps: kernels of fused operations, ops of weft, operations of torch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch.fx import Graph, Node

from weft.ops.fuse import table
from weft.ops.fuse.group import FusionGroup, Step, inputs_of, is_free, shape_of
from weft.ops.fuse.groups import Apart, grouped
from weft.torch_backend import updates
from weft.torch_backend.merging import MOST_OPERANDS, merge
from weft.torch_backend.operands import made_by, memory_order_of, order_of, read_by

SMALL = 1 << 16
"""Elements: kernels over fewer are joined with others of one shape, since launches cost most."""


@dataclass
class Placed:
    """A step and the values that no later one reads.

    into  results that are written to an input of the graph, by the input
    """

    step: Step
    frees: list[Node] = field(default_factory=list)
    into: dict[Node, Node] = field(default_factory=dict)


def lower(graph: Graph, apart: Apart | None = None) -> list[Placed]:
    """The steps of a graph, in the order in which they run.

    apart  receives the reasons why operations are not in the kernels of their operands
    """
    updates.sink(graph)
    steps, into = updates.written(merge(grouped(graph, _Near(), apart)))
    placed = [Placed(s, into={n: into[n] for n in made_by(s) if n in into}) for s in steps]
    _release(graph, placed)
    return placed


# ---- groups ------------------------------------------------------------------------------------
class _Near:
    """The groups that an operation may join: those it shares values with, and small ones.

    A graph of a whole model has far more groups than an operation should look at; and one that
    joins a group only because of its shape makes results long before they are used.
    """

    def __init__(self) -> None:
        self._readers: dict[Node, set[int]] = defaultdict(set)
        self._small: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self._known = 0
        self._counted: dict[int, int] = {}

    def __call__(
        self, node: Node, steps: Sequence[Step], place: Mapping[Node, int]
    ) -> Iterable[tuple[int, str]]:
        self._update(steps)
        found: set[int] = set()
        if table.name_of(node.target) in table.VIEWS and not _is_read_by_kernels(node):
            for n in inputs_of(node):
                if n in place:
                    yield place[n], "the kernel would write the view to memory once more"
            return
        for n in inputs_of(node):
            if is_free(n):
                continue
            if n in place:
                found.add(place[n])
            found |= self._readers.get(n, set())
        value = node.meta["val"]
        if value.numel() <= SMALL:
            found.update(self._small[tuple(value.shape)])
        for number in sorted(found):
            step = steps[number]
            if not isinstance(step, FusionGroup):
                continue
            why = _unfit(step, node)
            if not why:
                for n in inputs_of(node):  # should it join; too many numbers do no harm
                    self._readers[n].add(number)
            yield number, why

    def _update(self, steps: Sequence[Step]) -> None:
        for number in range(self._known, len(steps)):
            step = steps[number]
            if not isinstance(step, FusionGroup):
                continue
            for n in inputs_of(step.nodes[0]):
                self._readers[n].add(number)
            if math.prod(step.space) <= SMALL:
                self._small[step.space].append(number)
        self._known = len(steps)


def _is_read_by_kernels(node: Node) -> bool:
    """True if a view is an operand of fused operations alone, or small."""
    if node.meta["val"].numel() <= SMALL:
        return True
    fused = (*table.REDUCTIONS, *table.VARIANCES, *table.VIEWS)
    return all(updates.is_elementwise(u) or table.name_of(u.target) in fused for u in node.users)


def _unfit(group: FusionGroup, node: Node) -> str:
    """The reason why a group may not have one more operation: operands, or memory orders."""
    operands = {*group.arguments, *(n for n in inputs_of(node) if not is_free(n))}
    written = [n for n in group.nodes if any(u not in group.nodes for u in n.users)]
    if len(operands) + len(written) > MOST_OPERANDS:
        return f"one kernel would have more than {MOST_OPERANDS} tensors"
    order = order_of(group)
    if shape_of(node) != group.space or order is None or order == memory_order_of(node):
        return ""
    return "its result has another memory order than the kernel's"


# ---- lifetimes ---------------------------------------------------------------------------------
def _release(graph: Graph, steps: Sequence[Placed]) -> None:
    """Note after which step each value is not read any more."""
    returned = set(next(n for n in graph.nodes if n.op == "output").all_input_nodes)
    last: dict[Node, int] = {}
    for number, placed in enumerate(steps):
        kept = [n for n in made_by(placed.step) if n not in placed.into]
        for node in (*read_by(placed.step), *kept, *placed.into.values()):
            last[node] = number
    for node, number in last.items():
        if node not in returned and node.op != "get_attr":
            steps[number].frees.append(node)
