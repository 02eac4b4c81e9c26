"""Find steps that read results of others, and the reasons why they are not one kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from torch.fx import Node

from weft.ops.fuse.group import FusionGroup, Other, Step, inputs_of
from weft.ops.fuse.groups import Apart, alone
from weft.torch_backend.operands import made_by, read_by
from weft.values.explanation import NotFused


def not_fused(
    steps: Sequence[Step],
    apart: Apart,
    name: Callable[[Step], str],
    moves_nothing: Callable[[Step], bool],
) -> tuple[NotFused, ...]:
    """The pairs of neighbours in the order of the graph, equal ones once.

    apart          the reasons that `lower` has noted
    name           the name of a step
    moves_nothing  true for views, across which steps are neighbours
    """
    maker = {n: s for s in steps for n in made_by(s)}
    found: Counter[tuple[str, str, str]] = Counter()
    for step in steps:
        if moves_nothing(step):
            continue
        pairs: dict[int, tuple[Step, str]] = {}
        for reader, value in _reads(step):
            while value in maker and moves_nothing(maker[value]):
                reader, value = _viewed(maker[value], value)
            before = maker.get(value)
            why = "" if before is None else _reason(before, step, apart.get((reader, value), ""))
            if before is not None and why:
                pairs.setdefault(id(before), (before, why))
        found.update((name(before), name(step), why) for before, why in pairs.values())
    return tuple(NotFused(*pair, count) for pair, count in found.items())


def _reads(step: Step) -> Iterator[tuple[Node, Node]]:
    """The operations of a step and the values from outside that they read."""
    if isinstance(step, Other):
        yield from ((step.node, n) for n in read_by(step))
        return
    outside = set(step.arguments)
    for node in step.nodes:
        yield from ((node, n) for n in inputs_of(node) if n in outside)


def _viewed(step: Step, value: Node) -> tuple[Node, Node]:
    """A view and the value that it is a view of; itself where there is none."""
    node = value if isinstance(step, FusionGroup) else step.node
    return node, next(iter(inputs_of(node)), node)


def _reason(before: Step, step: Step, refusal: str) -> str:
    """The reason of two neighbours; that of the first operation between them if both are fused."""
    other = next((s for s in (before, step) if isinstance(s, Other)), None)
    return refusal if other is None else alone(other.node, other.why)
