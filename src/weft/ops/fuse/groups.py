"""Put the operations of a graph into groups, each of which becomes one kernel.

A group has a space: the shape that its elements run through. Its values have the shape of the
space or one that is broadcast to it. With reductions, the last `k` dimensions of the space are a
row, and a block or a part of it computes a row; without, `k` is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import source
from weft.ops.core.native.trace import NAMESPACE
from weft.ops.fuse import model, table
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
Chosen = Callable[[Node, Sequence[Step], Mapping[Node, int]], Iterable[tuple[int, str]]]
"""(an operation, the steps so far, the step of each value) -> the numbers of groups to try; a
number with a reason is refused for it."""
Apart = dict[tuple[Node, Node], str]
"""(an operation, an operand) -> the reason why the kernel of the operand does not compute it."""


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
    numbers = [n for n in graph.nodes if is_number(n)]
    split = [part for number, step in enumerate(steps) for part in _split(step, number, place)]
    others = {s.node for s in split if isinstance(s, Other)}
    needed = [n for n in numbers if any(u in others or u.op == "output" for u in n.users)]
    filled = [i for n in needed for i in inputs_of(n) if i in only_filled]
    needed = [n for n in dict.fromkeys([*filled, *needed]) if n.op == "call_function"]
    return [*(Other(n, "a constant that is no operand of a kernel") for n in needed), *split]


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
        why = refusal or _begins(node)
        steps.append(Other(node, why) if why else _new(node))
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
            tried[number] = _join(step, node, place, number)
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


# ---- joining a group ---------------------------------------------------------------------------
def _join(group: FusionGroup, node: Node, place: dict[Node, int], number: int) -> str:
    """Add an operation to a group if the group can compute it; else return the reason."""
    inside = [n for n in inputs_of(node) if place.get(n) == number]
    if group.k and any(is_mask(n) and shape_of(n) != group.space for n in inputs_of(node)):
        return "a mask of dropout has elements that are numbered in another way"
    name = table.name_of(node.target)
    if name in table.VIEWS:
        why = _join_as_view(group, node, inside[0]) if inside else "a view of another value"
    elif _is_reduction(node):
        why = _join_as_reduction(group, node)
    else:
        why = _join_as_element(group, node, inside)
    if not why:
        group.nodes.append(node)
    return why


def _is_reduction(node: Node) -> bool:
    name = table.name_of(node.target)
    return name in table.REDUCTIONS or name in table.VARIANCES


def _join_as_element(group: FusionGroup, node: Node, inside: list[Node]) -> str:
    squeezed = [n for n in inside if n in group.squeezed]
    if squeezed:
        # Elements of reduced values combine with each other and with single numbers.
        others = [n for n in inputs_of(node) if n not in group.squeezed]
        if any(math.prod(shape_of(n)) > 1 for n in others):
            return "it combines a reduced value with one that the kernel does not reduce"
        group.squeezed.add(node)
        return ""
    space = _common(group.space, shape_of(node))
    if space is None:
        return f"its shape {_text(shape_of(node))} does not fit the kernel's {_text(group.space)}"
    if space != group.space and (group.k or not inside):
        return f"its shape {_text(shape_of(node))} exceeds the kernel's {_text(group.space)}"
    group.space = space
    return ""


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _join_as_view(group: FusionGroup, node: Node, value: Node) -> str:
    """Add a view that repeats a value along dimensions that it does not depend on."""
    before, after = shape_of(value), shape_of(node)
    other = f"the view of {_text(before)} as {_text(after)} is no broadcast to the kernel's shape"
    if value in group.squeezed:
        if after == before:
            group.squeezed.add(node)
            return ""
        return "" if after == before + (1,) * group.k else other  # as `keepdim` would have left it
    if len(after) >= len(before) and _common(before, after) == after:
        return "" if _common(group.space, after) == group.space else other
    if group.k and before == after + (1,) * group.k:
        group.squeezed.add(node)
        return ""
    return other


def _join_as_reduction(group: FusionGroup, node: Node) -> str:
    value = inputs_of(node)[0]
    if value in group.squeezed or shape_of(value) != group.space:
        return f"it reduces {_text(shape_of(value))}, not the kernel's {_text(group.space)}"
    k = _reduced(node)
    if not k or (group.k and group.k != k):
        return "it reduces other dimensions than the kernel's rows"
    if _few(group.space, k):
        return "it reduces to too few results for one block per row"
    if any(shape_of(n) != group.space for n in group.masks):
        return "a mask of dropout has elements that are numbered in another way"
    if not group.k:  # values that were broadcast along a row stay so; all others are elements
        group.k = k
    if not _keeps(node):
        group.squeezed.add(node)
    return ""


def _new(node: Node) -> FusionGroup:
    if _is_reduction(node):
        group = FusionGroup(shape_of(inputs_of(node)[0]), _reduced(node), [node])
        if not _keeps(node):
            group.squeezed.add(node)
        return group
    return FusionGroup(shape_of(node), 0, [node])


def _begins(node: Node) -> str:
    """The reason why an operation cannot begin a group, or ""."""
    if table.name_of(node.target) in table.VIEWS:
        return "a view, which moves no data"
    if not _is_reduction(node):
        return ""
    space = shape_of(inputs_of(node)[0])
    k = _reduced(node)
    if not k:
        return "a reduction along other dimensions than the last ones"
    if _few(space, k):
        return "a reduction to too few results for one block per row"
    return ""


def _few(space: Shape, k: int) -> bool:
    rows = math.prod(space[: len(space) - k])
    return rows < model.FULL_GPU_ROWS and math.prod(space[len(space) - k :]) > model.SHORT_ROW


def _common(a: Shape, b: Shape) -> Shape | None:
    """The shape that both are broadcast to; None if there is none."""
    try:
        return tuple(torch.broadcast_shapes(a, b))
    except RuntimeError:
        return None


# ---- reductions --------------------------------------------------------------------------------
def _reduced(node: Node) -> int:
    """The number of last dimensions that a reduction runs along; 0 if it runs along others."""
    rank = len(shape_of(inputs_of(node)[0]))
    dims = argument(node, 1, "dim")
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        dims = range(rank)
    found = sorted(d % max(rank, 1) for d in ([dims] if isinstance(dims, int) else dims))
    return len(found) if found == list(range(rank - len(found), rank)) else 0


def _keeps(node: Node) -> bool:
    """True if the result has the reduced dimensions, of size 1."""
    return len(shape_of(node)) == len(shape_of(inputs_of(node)[0]))


def argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    """An argument of an operation, by position or by name."""
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)
