"""Replace a convolution and what follows it by one op, in evaluation: batch norm, a sum, ReLU.

The sums of a channel are completed before they are stored: passes over memory less.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node
from torch.nn import functional as F

from weft.ops.core import library
from weft.ops.families.conv import arguments as conv_arguments
from weft.ops.families.conv import fused
from weft.torch_backend import functions
from weft.torch_backend.patterns.changes import changed
from weft.torch_backend.patterns.nodes import alike, arguments, value_of

RELUS = (F.relu, torch.relu, "relu", "relu_", torch.relu_)
SUMS = (operator.add, torch.add, "add")
_CONV = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_NORM = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_NORM_RELU = ("input", "residual", *_NORM[1:])


def conv_fused(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, norm_weight: Any,
    norm_bias: Any, residual: Any, stride: Any, padding: Any, dilation: Any, eps: float, relu: bool,
) -> Any:  # fmt: skip
    """The op, with operands of the dtype that autocast has for convolutions."""
    kind = input.device.type
    tensors = [input, weight, bias, residual]
    if torch.is_autocast_enabled(kind):
        lower = torch.get_autocast_dtype(kind)
        tensors = [None if t is None else t.to(lower) for t in tensors]
    input, weight, bias, residual = tensors
    with torch.autocast(kind, enabled=False):
        return library.call(fused.NAME)(
            input, weight, bias, running_mean, running_var, norm_weight, norm_bias, residual,
            stride, padding, dilation, 1, eps, relu,
        )  # fmt: skip


class _Chain(NamedTuple):
    """A convolution and the calls after it.

    norm  the arguments of batch norm, if there is one
    """

    calls: tuple[Node, ...]
    norm: dict[str, Any] | None = None
    residual: Any = None
    relu: bool = False

    @property
    def last(self) -> Node:
        return self.calls[-1]


def join(graph: Graph, norm_relu: Any) -> int:
    """Replace the chains of a graph; return how many. `norm_relu` computes a norm with ReLU."""
    found = 0
    for node in list(graph.nodes):
        if node.target is not functions.conv2d:
            continue
        options = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        options |= arguments(node, *_CONV)
        chain = _chain(node, norm_relu)
        if len(chain.calls) == 1 or options["groups"] != 1 or isinstance(options["padding"], str):
            continue
        # Of calls between, a sum may change the result before it, which no other reads.
        moved = any(changed(a, b) for a, b in itertools.pairwise(chain.calls))
        if not moved and all(map(_suits, (node, chain.last))):
            _replace(graph, chain, options)
            found += 1
    return found


def _chain(conv: Node, norm_relu: Any) -> _Chain:
    """The calls after a convolution of which each reads the one before, and is alone to do so."""
    chain = _Chain((conv,))
    user = _only(chain)
    if user is not None and user.target is norm_relu:
        given = arguments(user, *_NORM_RELU)
        if given["input"] is conv and not given.get("training"):
            return _Chain((conv, user), given, given.get("residual"), True)
        return chain
    if user is not None and user.target is functions.batch_norm:
        given = arguments(user, *_NORM)
        if given.get("training"):
            return chain
        chain = _Chain((conv, user), given)
        user = _only(chain)
    if user is not None and _is_sum(user, chain.last):
        residual = user.args[1] if user.args[0] is chain.last else user.args[0]
        if residual is not chain.last and alike(conv, residual):
            chain = chain._replace(calls=(*chain.calls, user), residual=residual)
            user = _only(chain)
    if user is not None and user.target in RELUS:
        chain = chain._replace(calls=(*chain.calls, user), relu=True)
    return chain


def _only(chain: _Chain) -> Node | None:
    """The one call that reads a result, if its own is like that of the convolution."""
    users = list(chain.last.users)
    return users[0] if len(users) == 1 and alike(chain.calls[0], users[0]) else None


def _is_sum(node: Node, of: Node) -> bool:
    """True for a sum of two that changes no tensor but `of`."""
    if node.kwargs or len(node.args) != 2:
        return False
    return node.target in SUMS or (node.target is operator.iadd and node.args[0] is of)


def _replace(graph: Graph, chain: _Chain, options: dict[str, Any]) -> None:
    last, norm = chain.last, chain.norm or {}
    parameters = (norm.get(name) for name in ("running_mean", "running_var", "weight", "bias"))
    with graph.inserting_before(last):
        made = graph.call_function(
            conv_fused,
            (
                options["input"], options["weight"], options["bias"], *parameters, chain.residual,
                options["stride"], options["padding"], options["dilation"],
                norm.get("eps", 1e-5), chain.relu,
            ),
        )  # fmt: skip
    made.meta = dict(last.meta)
    last.replace_all_uses_with(made)
    for call in reversed(chain.calls):
        graph.erase_node(call)


def _suits(node: Node) -> bool:
    """True for a result of 16 bits with its channels last and no gradient: as was timed."""
    value = value_of(node)
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in fused.HALVES
        and not value.requires_grad
        and conv_arguments.has_last(value)
    )
