"""Compute an activation in the launch that makes its input, where no gradient keeps this."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.nn import functional as F

from weft.ops.core import library
from weft.ops.families.norm import groups_last
from weft.torch_backend import functions
from weft.torch_backend.patterns import lowered
from weft.torch_backend.patterns.changes import changed
from weft.torch_backend.patterns.convolutions import RELUS
from weft.torch_backend.patterns.nodes import alike, arguments, value_of

SILUS = (F.silu,)
ACTIVATIONS = {
    F.gelu: "gelu",
    torch._C._nn.gelu: "gelu",
    F.silu: "silu",
    **dict.fromkeys(RELUS, "relu"),
}
"""Activations of products, by function."""


def group_norm_silu(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """The op computes in float32; autocast would convert results of 16 bits to this."""
    with torch.autocast(input.device.type, enabled=False):
        return library.call("group_norm_silu")(input, num_groups, weight, bias, eps)


def activation(graph: Graph, node: Node) -> str:
    """An activation of a linear layer, in the launch of the product. A gradient needs its input."""
    product = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(product, Node) or product.target is not functions.linear:
        return ""
    value = value_of(node)
    if len(product.users) > 1 or not alike(node, product) or value.requires_grad:
        return ""
    if value.dtype not in functions.FLOATS or changed(product, node):
        return ""
    name = ACTIVATIONS[node.target]
    if name == "gelu" and arguments(node, "input", "approximate").get("approximate") == "tanh":
        name = "gelu_tanh"
    x, weight, bias = (*product.args, None)[:3]
    with graph.inserting_before(node):
        made = graph.call_function(functions.linear, (x, weight, bias, name))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    graph.erase_node(product)
    return f"linear_{name}"


def swish(graph: Graph, node: Node) -> str:
    """silu of a group norm whose channels are last, also in training."""
    norm = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(norm, Node) or norm.target not in lowered.GROUP_NORMS:
        return activation(graph, node)
    x, value = value_of(norm.args[0]), value_of(node)
    converted = x.dtype in lowered.HALVES and value.dtype is torch.float32
    if len(norm.users) > 1 or not alike(node, norm) or changed(norm, node):
        return ""
    if not (lowered.is_lowered(node, x.dtype) if converted else x.dtype is value.dtype):
        return ""
    if x.dtype not in functions.FLOATS or not groups_last.stays_last(x, norm.args[1]):
        return ""
    with graph.inserting_before(node):
        made = graph.call_function(group_norm_silu, norm.args, norm.kwargs)
    made.meta = dict(node.meta) | {"example_value": value.to(x.dtype)}
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    graph.erase_node(norm)
    return "group_norm_silu"
