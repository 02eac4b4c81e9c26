"""Add an operation to a group, or begin a group with it, if one kernel can compute them."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from weft.ops.fuse import model, table
from weft.ops.fuse.group import FusionGroup, Shape, argument, inputs_of, is_reduction, shape_of
from weft.ops.fuse.masks import is_mask


def join(group: FusionGroup, node: Node, place: dict[Node, int], number: int) -> str:
    """Add an operation to a group if the group can compute it; else return the reason."""
    inside = [n for n in inputs_of(node) if place.get(n) == number]
    if group.k and any(is_mask(n) and shape_of(n) != group.space for n in inputs_of(node)):
        return "a mask of dropout has elements that are numbered in another way"
    name = table.name_of(node.target)
    if name in table.VIEWS:
        why = _join_as_view(group, node, inside[0]) if inside else "a view of another value"
    elif is_reduction(node):
        why = _join_as_reduction(group, node)
    else:
        why = _join_as_element(group, node, inside)
    if not why:
        group.nodes.append(node)
    return why


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


def new_group(node: Node) -> FusionGroup:
    if is_reduction(node):
        group = FusionGroup(shape_of(inputs_of(node)[0]), _reduced(node), [node])
        if not _keeps(node):
            group.squeezed.add(node)
        return group
    return FusionGroup(shape_of(node), 0, [node])


def cannot_begin(node: Node) -> str:
    """The reason why an operation cannot begin a group, or ""."""
    if table.name_of(node.target) in table.VIEWS:
        return "a view, which moves no data"
    if not is_reduction(node):
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
