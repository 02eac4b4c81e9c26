"""Replace gated activations of the halves of one tensor, whose gradient is then one tensor, too.

Kernels would write the gradients of both halves for another one to join them. Without a gradient,
and for two tensors, the fused kernel moves as many bytes as the op.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.nn import functional as F

from weft.ops.core import library
from weft.torch_backend import functions
from weft.torch_backend.patterns import rotary
from weft.torch_backend.patterns.changes import changed
from weft.torch_backend.patterns.halves import half_of
from weft.torch_backend.patterns.nodes import arguments, value_of

PRODUCTS = (operator.mul, torch.mul, "mul")
_GELUS = {"none": "gelu", "tanh": "gelu_tanh"}
"""Names of the op for gelu, by `approximate`."""


def gated(packed: Any, activation: str, gate_first: bool) -> Any:
    """activation(one half of each row) * the other one."""
    if activation == "silu" and gate_first:
        return library.call("swiglu")(packed)
    return library.call("gated")(packed, None, activation, gate_first)


def gate(graph: Graph, node: Node) -> str:
    """Replace activation(a) * b of the halves a and b of one tensor, in either order."""
    if len(node.args) != 2 or node.kwargs:
        return ""
    for gate, up in (node.args, node.args[::-1]):
        activation = _activation(gate)
        if not activation or len(gate.users) > 1:
            continue
        halves = half_of(gate.args[0]), half_of(up)
        if None in halves:
            continue
        (packed, first), (same, second) = halves  # type: ignore[misc]
        value = value_of(packed)
        fits = packed is same and first != second and value.requires_grad
        if not fits or value.dtype not in functions.FLOATS or value_of(node).dtype != value.dtype:
            continue
        if changed(packed, node):
            continue
        with graph.inserting_before(node):
            made = graph.call_function(gated, (packed, activation, first == 0))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        rotary.erase(graph, node)
        return "swiglu" if activation == "silu" and first == 0 else "gated"
    return ""


def _activation(node: Any) -> str:
    """The op's name for a call of one tensor; "" for other calls."""
    if not isinstance(node, Node) or not node.args:
        return ""
    if node.target is F.silu:
        return "" if any(node.kwargs.values()) or len(node.args) > 1 else "silu"
    if node.target in (F.gelu, torch._C._nn.gelu):
        given = arguments(node, "input", "approximate")
        return _GELUS.get(given.get("approximate", "none"), "")
    return ""
