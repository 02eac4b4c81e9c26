"""Write out dropout beside elementwise operations as a product with a mask of a fused kernel.

The kernel computes the mask where it needs it, from the random numbers that the op would use, and
the pass over memory of the op is saved: the residual sum, or the activation, reads or writes the
values anyway.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from weft.torch_backend.updates import is_elementwise
from weft.torch_backend.writer import Writer

_NAME = "weft::seeded_dropout"
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def write_out(graph: Graph) -> None:
    """Replace such calls of dropout; the random numbers stay the same."""
    for node in list(graph.nodes):
        if getattr(getattr(node.target, "_schema", None), "name", "") != _NAME:
            continue
        given: list[Any] = [*node.args, *node.kwargs.values()]
        x, p, state = given[0], given[1], given[-1]
        if isinstance(state, Node) and _joins(node, x):
            _replace(graph, node, x, p, state)


def _joins(node: Node, x: Any) -> bool:
    """True if a kernel beside the call may compute it, with elements in one order."""
    value = x.meta["val"]
    if not value.is_contiguous() or value.dtype not in _FLOATS or not value.numel():
        return False
    beside = [*node.users, *([x] if len(x.users) == 1 else [])]
    return any(
        n.op == "call_function" and is_elementwise(n) and n.meta["val"].shape == value.shape
        for n in beside
    )


def _replace(graph: Graph, node: Node, x: Node, p: float, state: Node) -> None:
    value = node.meta["val"]
    with graph.inserting_before(node):
        write = Writer(graph)
        mask = write(
            torch.ops.weft.recorded_mask.default, state, list(value.shape), p, value.dtype,
            value.device,
        )  # fmt: skip
        made = write(torch.ops.aten.mul.Tensor, x, mask)
    made.meta = {**node.meta, "val": made.meta["val"]}
    node.replace_all_uses_with(made)
    graph.erase_node(node)
