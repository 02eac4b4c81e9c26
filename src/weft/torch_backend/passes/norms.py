"""Write out norms of float32 whose results are converted, as they are under autocast.

Inside a fused kernel the sum before the norm, the norm and the conversion are one pass over memory;
the op alone would write a result of float32 that another kernel reads to convert it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.torch_backend.writer import Writer

aten = torch.ops.aten

ROW = 8192
"""Elements of a row that a block of a fused kernel has in registers."""
_NAMES = {
    "weft::layer_norm_forward": True,
    "weft::rms_norm_forward": False,
    "weft::layer_norm": True,
    "weft::rms_norm": False,
}
"""The ops, and whether they subtract the mean."""


def write_out(graph: Graph) -> None:
    """Replace such norms by the operations that they consist of."""
    for node in list(graph.nodes):
        name = getattr(getattr(node.target, "_schema", None), "name", "")
        if name in _NAMES:
            _replace(graph, node, _NAMES[name])


def _replace(graph: Graph, node: Node, centred: bool) -> None:
    x, shape, *weights = _arguments(node)
    value = x.meta["val"]
    items = {u.args[1]: u for u in node.users if u.target is operator.getitem}
    several = isinstance(node.meta["val"], tuple | list)
    result = items.get(0) if several else node
    if value.dtype is not torch.float32 or result is None or not _is_converted(result):
        return
    dims = list(range(-len(shape), 0))
    if _row(value, dims) > ROW:
        return
    with graph.inserting_before(node):
        write = Writer(graph)
        normed, *statistics = _formula(write, x, dims, weights, centred)
        lead = list(value.shape[: value.dim() - len(shape)])
        flat = [
            write(aten.view.default, s, lead) if i + 1 in items else None
            for i, s in enumerate(statistics)
        ]
    result.replace_all_uses_with(normed)
    for i, made in enumerate(flat, 1):
        if made is not None:
            items[i].replace_all_uses_with(made)
    for item in items.values():
        graph.erase_node(item)
    graph.erase_node(node)


def _formula(
    write: Writer, x: Node, dims: Sequence[int], weights: Sequence[Any], centred: bool
) -> list[Node]:
    """The result, then the statistics, which keep their dimensions."""
    *factors, eps = weights
    if eps is None:
        eps = torch.finfo(torch.float32).eps
    statistics, shifted = [], x
    if centred:
        mean = write(aten.mean.dim, x, list(dims), True)
        spread = write(aten.var.correction, x, list(dims), correction=0, keepdim=True)
        shifted = write(aten.sub.Tensor, x, mean)
        statistics.append(mean)
    else:
        spread = write(aten.mean.dim, write(aten.mul.Tensor, x, x), list(dims), True)
    scale = write(aten.rsqrt.default, write(aten.add.Tensor, spread, eps))
    made = write(aten.mul.Tensor, shifted, scale)
    for factor, target in zip(factors, (aten.mul.Tensor, aten.add.Tensor), strict=False):
        if factor is not None:
            made = write(target, made, factor)
    return [made, *statistics, scale]


def _arguments(node: Node) -> list[Any]:
    """(the rows, the shape, weight, bias of a layer norm, eps)."""
    schema: Any = node.target._schema.arguments
    rest = (node.kwargs.get(a.name, a.default_value) for a in schema[len(node.args) :])
    return [*node.args, *rest]


def _is_converted(node: Node) -> bool:
    """True if a conversion to half precision reads a value; others may, too."""
    half = (torch.float16, torch.bfloat16)
    return any(
        u.target is aten._to_copy.default and u.meta["val"].dtype in half for u in node.users
    )


def _row(value: torch.Tensor, dims: Sequence[int]) -> int:
    count = 1
    for d in dims:
        count *= value.shape[d]
    return count
