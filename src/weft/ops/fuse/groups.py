"""Put the operations of a graph into groups, each of which becomes one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch.fx import Graph, Node

from weft.ops.core import source
from weft.ops.core.native.trace import NAMESPACE
from weft.ops.fuse import table
from weft.ops.fuse.group import FusionGroup, Other, Step, inputs_of, is_free, is_number, shape_of
from weft.ops.fuse.joining import cannot_begin, join, new_group
from weft.ops.fuse.masks import is_mask, states_of

Chosen = Callable[[Node, Sequence[Step], Mapping[Node, int]], Iterable[tuple[int, str]]]
"""(an operation, the steps so far, the step of each value) -> the numbers of groups to try; a
number with a reason is refused for it."""
Apart = dict[tuple[Node, Node], str]
"""(an operation, an operand) -> the reason why the kernel of the operand does not compute it."""


def grouped(graph: Graph, chosen: Chosen | None = None, apart: Apart | None = None) -> list[Step]:
    """The steps of a graph, in an order in which they can run.

    chosen  the groups that an operation may join; by default any
    apart   receives the reasons why operations are not in the kernels of their operands
    """
    steps: list[Step] = []
    place: dict[Node, int] = {}
    only_filled = {n for n in graph.nodes if n.users and all(is_number(u) for u in n.users)}
    for node in graph.nodes:
        if node.op == "call_function" and not is_free(node) and node not in only_filled:
            place[node] = _placed(node, steps, place, chosen, apart)
    split = [part for number, step in enumerate(steps) for part in _split(step, number, place)]
    others = {s.node for s in split if isinstance(s, Other)}
    needed: set[Node] = set()
    for node in reversed(list(graph.nodes)):
        read = is_number(node) and any(u in others or u.op == "output" for u in node.users)
        # A constant in the memory order of another value is made from that value.
        shapes = node in only_filled and any(u in needed for u in node.users)
        if node.op == "call_function" and (read or shapes):
            needed.add(node)
    return _with_constants(split, [n for n in graph.nodes if n in needed])


def _with_constants(steps: Sequence[Step], constants: Iterable[Node]) -> list[Step]:
    """Add each constant before the first step that reads it, or at the end."""
    found: list[Step] = []
    waiting = dict.fromkeys(constants)

    def add(step: Step) -> None:
        for n in step.arguments if isinstance(step, FusionGroup) else inputs_of(step.node):
            if n in waiting:
                make(n)
        found.append(step)

    def make(node: Node) -> None:
        del waiting[node]
        add(Other(node, "a constant that is no operand of a kernel"))

    for step in steps:
        add(step)
    while waiting:
        make(next(iter(waiting)))
    return found


def _placed(
    node: Node,
    steps: list[Step],
    place: dict[Node, int],
    chosen: Chosen | None,
    apart: Apart | None,
) -> int:
    """The number of the step that computes an operation; may add one."""
    refusal = refused(node)
    tried: dict[int, str] = {}
    number = None if refusal else _joined(node, steps, place, chosen, tried)
    if number is None:
        why = refusal or cannot_begin(node)
        steps.append(Other(node, why) if why else new_group(node))
        number = len(steps) - 1
    if apart is not None:
        for n in inputs_of(node):
            if place.get(n, number) != number:
                before = steps[place[n]]
                if isinstance(before, Other):
                    apart[node, n] = alone(n, before.why)
                else:
                    apart[node, n] = tried.get(place[n]) or alone(node, refusal)
    return number


def _joined(
    node: Node,
    steps: list[Step],
    place: dict[Node, int],
    chosen: Chosen | None,
    tried: dict[int, str],
) -> int | None:
    """The number of the group that an operation joins; `tried` receives why others refuse it."""
    # The first step at which all operands are there; arguments are there from the beginning.
    starts = states_of(n for n in inputs_of(node) if is_mask(n))
    made = [n for n in (*inputs_of(node), *starts) if n in place]
    least = max(map(place.__getitem__, made), default=0)
    numbers: Iterable[tuple[int, str]] = ((n, "") for n in range(least, len(steps)))
    for number, why in numbers if chosen is None else chosen(node, steps, place):
        step = steps[number]
        if number < least:
            last = next(table.name_of(n.target) for n in made if place[n] == least)
            tried[number] = f"its other operand, made by {last}, is not there yet"
        elif why or not isinstance(step, FusionGroup):
            tried[number] = why
        else:
            tried[number] = join(step, node, place, number)
            if not tried[number]:
                return number
    return None


def alone(node: Node, why: str) -> str:
    """Say why an operation is in no kernel with others."""
    return f"{table.name_of(node.target)} is apart: {why}"


def _split(step: Step, number: int, place: dict[Node, int]) -> list[Step]:
    """A step, and groups of their own for results with fewer elements than the space."""
    if isinstance(step, Other):
        return [step]
    used = [
        n for n in step.nodes if any(u.op == "output" or place.get(u) != number for u in n.users)
    ]
    small = [n for n in used if not step.full(n) and not step.per_row(n)]
    step.results = [n for n in used if n not in small]
    # A small result is computed again, because the kernel has more threads than it has elements.
    others = [FusionGroup(shape_of(n), 0, _cone(step, [n]), set(), [n]) for n in small]
    step.nodes = _cone(step, step.results)
    return [step, *others] if step.results else [*others]


def _cone(group: FusionGroup, results: list[Node]) -> list[Node]:
    """The operations of a group that some results are computed from."""
    needed = set(results)
    for node in reversed(group.nodes):
        if node in needed:
            needed.update(inputs_of(node))
    return [n for n in group.nodes if n in needed]


def refused(node: Node) -> str:
    """The reason why an operation cannot be in any kernel, or ""."""
    value, name = node.meta.get("val"), table.name_of(node.target)
    if getattr(node.target, "namespace", "") == NAMESPACE:
        return "an op with kernels of its own"
    if not isinstance(value, torch.Tensor):
        return "its result is not one tensor"
    if value.dtype not in source.CTYPES:
        return f"no kernel has the dtype {value.dtype}"
    known = (
        name in table.ELEMENTWISE or name in table.CASTS or name in table.SAME
        or name in table.VIEWS or name in table.REDUCTIONS or name in table.VARIANCES
    )  # fmt: skip
    if name in table.BITWISE and value.dtype is torch.bool:
        known = True
    if not known:
        return _unknown(node)
    if name == "div" and node.kwargs.get("rounding_mode") is not None:
        return "division with a rounding mode"
    if name in ("sum", "mean", "amax", "amin", "var") and not value.is_floating_point():
        return "a reduction to integers"
    if value.numel() == 0:
        return "it has no elements"
    return ""


def _unknown(node: Node) -> str:
    """Classify an operation that no fused kernel supports."""
    if draws(node):
        return "it draws random numbers"
    schema = getattr(node.target, "_schema", None)
    aliases = [r.alias_info for r in schema.returns] if schema else []
    if any(a is not None and not a.is_write for a in aliases):
        return "a view, which moves no data"
    return "it is neither elementwise nor a reduction of rows"


def draws(node: Node) -> bool:
    """True if an operation advances torch's random generator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
