"""Bring a graph that AOTAutograd has traced into the form that is divided into steps."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.ops.families.join.kernels import MOST
from weft.torch_backend.functions import FLOATS
from weft.torch_backend.updates import is_elementwise
from weft.torch_backend.writer import Writer

aten = torch.ops.aten

_SAME = (aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default)
"""Operations whose result may be their operand itself, since no graph writes to it."""
_FILLED: dict[Any, Callable[[Node], Any]] = {
    aten.zeros_like.default: lambda n: 0,
    aten.ones_like.default: lambda n: 1,
    aten.full_like.default: lambda n: n.args[1],
    aten.new_zeros.default: lambda n: 0,
    aten.new_ones.default: lambda n: 1,
    aten.new_full.default: lambda n: n.args[2],
    aten.zeros.default: lambda n: 0,
    aten.ones.default: lambda n: 1,
}
"""Operations whose elements are one number, and how to find it."""
_JOINS = (aten.cat.default, aten.stack.default)


def canonical(graph: Graph) -> None:
    """Remove operations that compute nothing, and write all constants in one way."""
    for node in list(graph.nodes):
        if node.target in _SAME and isinstance(node.args[0], Node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target is aten.copy.default and _is_conversion(node):
            _convert(graph, node)
        elif node.target in _FILLED:
            _fill(graph, node, _FILLED[node.target](node))
        elif node.target is aten.view.default and _is_same(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target is aten.clone.default:
            _stack_permuted(graph, node)
        elif node.target is aten.sum.dim_IntList:
            _sum_columns(graph, node)
    for node in list(graph.nodes):
        if node.target in _JOINS:
            _join_tensors(graph, node, new=node.target is aten.stack.default)
    _join_items(graph)
    graph.eliminate_dead_code()


def _join_tensors(graph: Graph, node: Node, new: bool) -> None:
    """Join tensors by weft's op, where its result has the memory order of PyTorch's."""
    tensors, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
    if not isinstance(tensors, list | tuple) or not 1 < len(tensors) <= MOST:
        return
    values = [n.meta["val"] for n in (*tensors, node)]
    same = len({v.dtype for v in values}) == 1 and values[0].dtype in FLOATS
    sizes = [s for v in values for s in v.shape]
    if (
        not same
        or len({v.dim() for v in values[:-1]}) > 1
        or not all(type(s) is int for s in sizes)
    ):
        return  # torch.cat passes over empty tensors of one dimension
    library.function(f"cat_{len(tensors)}")
    op = getattr(torch.ops.weft, f"cat_{len(tensors)}").default
    with graph.inserting_before(node):
        made = Writer(graph)(op, *tensors, dim, new)
    if made.meta["val"].stride() == node.meta["val"].stride():
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    else:
        graph.erase_node(made)


def _sum_columns(graph: Graph, node: Node) -> None:
    """Sum by weft's op what is no sum of rows that lie in memory one after the other.

    Such as the pixels of images with the channels last, which a fused kernel would copy first, and
    the gradient of a factor of each channel.
    """
    x, dims = node.args[:2]
    if not isinstance(x, Node) or not isinstance(dims, list | tuple) or not dims:
        return
    value, made = x.meta["val"], node.meta["val"]
    if value.dtype not in FLOATS or made.dtype is not value.dtype or not value.numel():
        return
    if not _is_block(value, dims) or (_is_tail(value, dims) and _has_rows(x)):
        return
    keeps = bool(node.args[2]) if len(node.args) > 2 else bool(node.kwargs.get("keepdim", False))
    library.function("sum")
    with graph.inserting_before(node):
        found = Writer(graph)(torch.ops.weft.sum.default, x, list(dims), keeps)
    if found.meta["val"].stride() == made.stride():
        node.replace_all_uses_with(found)
        graph.erase_node(node)
    else:
        graph.erase_node(found)


def _is_tail(value: torch.Tensor, dims: Sequence[int]) -> bool:
    """True for the last dimensions."""
    rank = value.dim()
    return sorted(d % rank for d in dims) == list(range(rank - len(dims), rank))


def _has_rows(x: Node) -> bool:
    """True if a kernel has rows of a value that are contiguous, or makes them."""
    return bool(x.meta["val"].is_contiguous() or is_elementwise(x))


def _is_block(value: torch.Tensor, dims: Sequence[int]) -> bool:
    """True if the reduced dimensions follow each other in memory, or the others do."""
    reduced = {d % value.dim() for d in dims}
    order = sorted(range(value.dim()), key=lambda d: (-value.stride(d), d))
    flags = [d in reduced for d in order if value.shape[d] > 1]
    turns = sum(a is not b for a, b in itertools.pairwise(flags))
    return any(flags) and turns < 3


def _is_same(node: Node) -> bool:
    """True if a view has the shape of its operand."""
    source = node.args[0]
    return isinstance(source, Node) and source.meta["val"].shape == node.meta["val"].shape


def _stack_permuted(graph: Graph, node: Node) -> None:
    """Stack tensors in the order in which they are copied afterwards, in one pass instead of two.

    The gradient of a tensor that was divided into queries, keys and values is such a copy.
    """
    permuted = node.args[0]
    if not isinstance(permuted, Node) or permuted.target is not aten.permute.default:
        return
    stacked: Any = permuted.args[0]
    if stacked.target is not aten.stack.default or len(permuted.users) + len(stacked.users) > 2:
        return
    if not node.meta["val"].is_contiguous():
        return
    rank = stacked.meta["val"].dim()
    dim = (stacked.args[1] if len(stacked.args) > 1 else 0) % rank
    order = [d % rank for d in permuted.args[1]]
    inner = [d - (d > dim) for d in order if d != dim]
    with graph.inserting_before(node):
        write = Writer(graph)
        parts = [write(aten.permute.default, part, inner) for part in stacked.args[0]]
        made = write(aten.stack.default, parts, order.index(dim))
    node.replace_all_uses_with(made)
    for each in (node, permuted, stacked):
        graph.erase_node(each)


def _is_conversion(node: Node) -> bool:
    """True if a copy changes no more than the dtype and the memory order."""
    into, value = (n.meta["val"] for n in node.args[:2])
    same = into.shape == value.shape and into.device == value.device
    return bool(same and (into.is_contiguous() or into.stride() == value.stride()))


def _convert(graph: Graph, node: Node) -> None:
    source, made = node.args[1], node.meta["val"]
    assert isinstance(source, Node)
    value, kept = source.meta["val"], source
    layout = {"memory_format": torch.contiguous_format} if made.is_contiguous() else {}
    with graph.inserting_before(node):
        if value.dtype is not made.dtype:
            options = {"dtype": made.dtype} | layout
            kept = graph.call_function(aten._to_copy.default, (source,), options)
        elif value.stride() != made.stride():  # later views depend on the order
            kept = graph.call_function(aten.clone.default, (source,), layout)
    if kept is not source:
        kept.meta["val"] = made
    node.replace_all_uses_with(kept)
    graph.erase_node(node)


def _fill(graph: Graph, node: Node, number: Any) -> None:
    value = node.meta["val"]
    if isinstance(number, Node) or not value.is_contiguous():
        return
    with graph.inserting_before(node):
        made = graph.call_function(
            aten.full.default,
            (list(value.shape), number),
            {"dtype": value.dtype, "device": value.device},
        )
    made.meta["val"] = value
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _join_items(graph: Graph) -> None:
    """Leave one node for each of an operation's results, so that each has one lifetime."""
    first: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.target is not operator.getitem:
            continue
        kept = first.setdefault(node.args, node)
        if kept is not node:
            node.replace_all_uses_with(kept)
            graph.erase_node(node)
