"""Replace several calls of a graph by one op that computes them together.

A norm of a sum, batch norm with ReLU, and the loss of a linear layer: a pass over memory less each.
gates.py has gated activations, rotary.py rotary embeddings, convolutions.py what follows a
convolution.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.torch_backend import functions
from weft.torch_backend.patterns import convolutions, gates, lowered, rotary
from weft.torch_backend.patterns.changes import changed
from weft.torch_backend.patterns.convolutions import RELUS, SUMS
from weft.torch_backend.patterns.epilogues import ACTIVATIONS, SILUS, activation, swish
from weft.torch_backend.patterns.nodes import alike, arguments, value_of

_FLATS = ("flatten", torch.flatten, "view", "reshape", torch.reshape)
"""Calls that join the leading dimensions of logits."""


MANY_LOGITS = 1 << 24
"""Logits of a linear layer from which on they are worth to be computed in chunks."""


# ---- what replaces the calls -------------------------------------------------------------------
def add_layer_norm(
    input: Any, residual: Any, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """(the norm of the sum, the sum)."""
    call = library.call("add_layer_norm")
    with lowered.kept(input, weight, bias):
        return call(input, residual, list(normalized_shape), weight, bias, eps)


def add_rms_norm(
    input: Any, residual: Any, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Any:
    """(the norm of the sum, the sum)."""
    with lowered.kept(input, weight):
        return library.call("add_rms_norm")(input, residual, list(normalized_shape), weight, eps)


def batch_norm_relu(
    input: Any, residual: Any, running_mean: Any, running_var: Any, weight: Any = None,
    bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not training:
        call = library.call("batch_norm_relu")
        return call(input, running_mean, running_var, weight, bias, residual, False, momentum, eps)
    call = library.call("batch_norm_relu_training")
    result, mean, var, _ = call(input, residual, weight, bias, eps)
    functions.update_statistics(input, running_mean, running_var, mean, var, momentum)
    return result


class _LinearLoss(torch.autograd.Function):  # type: ignore[misc]
    """The loss of a linear layer, whose gradients are computed with it, chunk by chunk."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, target: Any, options: Any) -> Any:
        wanted = tuple(bool(n) for n in ctx.needs_input_grad[:3])
        call = library.call("linear_cross_entropy_with_gradient")
        loss, *found = call(x, weight, target, bias, *options, None, *wanted)
        ctx.save_for_backward(*(g if want else None for g, want in zip(found, wanted, strict=True)))
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        found = (None if g is None else g * grad.to(g.dtype) for g in ctx.saved_tensors)
        return *found, None, None


def linear_cross_entropy(
    input: Any, weight: Any, bias: Any, target: Any, ignore_index: int, reduction: str,
    label_smoothing: float,
) -> Any:  # fmt: skip
    kind = input.device.type
    dtype = input.dtype
    if torch.is_autocast_enabled(kind):
        lower = torch.get_autocast_dtype(kind)
        input, weight, bias = (None if t is None else t.to(lower) for t in (input, weight, bias))
        dtype = torch.float32  # of the loss, as autocast has it
    flat, labels = input.flatten(0, -2), target.flatten()
    options = (ignore_index, reduction, label_smoothing)
    with torch.autocast(kind, enabled=False):
        wanted = torch.is_grad_enabled() and any(
            t is not None and t.requires_grad for t in (input, weight, bias)
        )
        if wanted:
            return _LinearLoss.apply(flat, weight, bias, labels, options).to(dtype)
        call = library.call("linear_cross_entropy")
        return call(flat, weight, labels, bias, *options, None).to(dtype)


# ---- the patterns ------------------------------------------------------------------------------
def join(graph: Graph) -> Counter[str]:
    """Replace the patterns of a graph; return how many of each kind."""
    found: Counter[str] = Counter()
    for node in list(graph.nodes):
        pattern = _PATTERNS.get(node.target)
        name = pattern(graph, node) if pattern is not None else ""
        if name:
            found[name] += 1
    if pairs := convolutions.join(graph, batch_norm_relu):
        found["conv_fused"] = pairs
    if pairs := rotary.join(graph):
        found["rotary"] = pairs
    return found


def _is_sum(node: Any, targets: tuple[Any, ...] = SUMS) -> bool:
    return (
        isinstance(node, Node)
        and node.op in ("call_function", "call_method")
        and node.target in targets
        and len(node.args) == 2
        and not node.kwargs
    )


def _norm(fused: Callable[..., Any]) -> Callable[[Graph, Node], str]:
    """A norm, which `fused` computes together with a sum before it."""
    of_sum = _norm_of_sum(fused)

    def replaced(graph: Graph, node: Node) -> str:
        lowered.lower(node)
        name = of_sum(graph, node)
        if not name:
            lowered.keep(node)
        return name

    return replaced


def _group_norm(graph: Graph, node: Node) -> str:
    lowered.lower(node)
    lowered.keep(node)
    return ""


def _norm_of_sum(fused: Callable[..., Any]) -> Callable[[Graph, Node], str]:
    def replaced(graph: Graph, node: Node) -> str:
        total = node.args[0] if node.args else node.kwargs.get("input")
        if not _is_sum(total) or not alike(node, total, *total.args):
            return ""
        if changed(total, node) or any(map(_drops, total.args)):
            return ""  # dropout and the sum are one kernel: less than dropout alone and the op
        if not node.users:
            return ""  # its weights have no gradient, as in PyTorch
        options = list(node.args[1:])
        if any(isinstance(o, Node) and o.op != "placeholder" for o in options) or node.kwargs:
            return ""  # the op takes the place of the sum, where they must be known
        with graph.inserting_after(total):
            both = graph.call_function(fused, (*total.args, *options))
        with graph.inserting_after(both):
            after = graph.call_function(operator.getitem, (both, 1))
            normed = graph.call_function(operator.getitem, (both, 0))
        normed.meta, after.meta = dict(node.meta), dict(total.meta)
        node.replace_all_uses_with(normed)
        total.replace_all_uses_with(after)
        both.args = (*total.args, *options)
        graph.erase_node(node)
        graph.erase_node(total)
        return fused.__name__

    return replaced


def _drops(node: Any) -> bool:
    """True if a value is the result of dropout, which nothing else reads."""
    if not isinstance(node, Node) or node.target is not functions.dropout or len(node.users) > 1:
        return False
    given = arguments(node, "input", "p", "training", "inplace")
    return bool(given.get("training", True) and given.get("p", 0.5))


def _relu(graph: Graph, node: Node) -> str:
    if "batch_norm_relu" not in library.definitions():
        return ""
    before = node.args[0] if node.args else node.kwargs.get("input")
    if not isinstance(before, Node) or len(before.users) > 1:
        return ""
    residual = None
    norm = before
    if _is_sum(before, (*SUMS, operator.iadd)):
        norm, residual = before.args
        if not _is_norm(norm) and before.target is not operator.iadd:
            norm, residual = residual, norm
    if not _is_norm(norm) or (before is not norm and len(norm.users) > 1):
        return ""
    if not alike(node, norm, norm.args[0], *([] if residual is None else [residual])):
        return ""
    # Of the calls between, the sum itself changes the result of the norm, which no other reads.
    if before is norm and changed(norm, node):
        return ""
    if before is not norm and (changed(norm, before) or changed(before, node)):
        return ""
    with graph.inserting_before(node):
        made = graph.call_function(
            batch_norm_relu, (norm.args[0], residual, *norm.args[1:]), norm.kwargs
        )
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    if before is not norm:
        graph.erase_node(before)
    graph.erase_node(norm)
    return "batch_norm_relu"


def _is_norm(node: Any) -> bool:
    return isinstance(node, Node) and node.target is functions.batch_norm and len(node.args) > 0


def _loss(graph: Graph, node: Node) -> str:
    given = arguments(
        node, "input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction",
        "label_smoothing",
    )  # fmt: skip
    chain = [node]
    logits = given["input"]
    while isinstance(logits, Node) and len(logits.users) == 1 and logits.target in _FLATS:
        chain.append(logits)
        logits = logits.args[0]
    if not isinstance(logits, Node) or len(logits.users) > 1:
        return ""
    target, value = value_of(given["target"]), value_of(logits)
    if logits.target is not functions.linear or given.get("weight") is not None:
        return ""
    last = value_of(given["input"])
    if last.dim() != 2 or last.shape[-1] != value.shape[-1] or target.is_floating_point():
        return ""
    reduction = given.get("reduction", "mean")
    if reduction == "none" or value.dtype is torch.float16 or value.numel() < MANY_LOGITS:
        return ""
    if "linear_cross_entropy" not in library.definitions():
        return ""
    if changed(logits, node):
        return ""
    x, weight, bias = (*logits.args, None)[:3]
    options = (given.get("ignore_index", -100), reduction, given.get("label_smoothing", 0.0))
    with graph.inserting_before(node):
        made = graph.call_function(
            linear_cross_entropy, (x, weight, bias, given["target"], *options)
        )
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    for each in (*chain, logits):
        graph.erase_node(each)
    return "linear_cross_entropy"


def _rectified(graph: Graph, node: Node) -> str:
    return _relu(graph, node) or activation(graph, node)


_PATTERNS: dict[Any, Callable[[Graph, Node], str]] = {
    **dict.fromkeys(ACTIVATIONS, activation),
    functions.layer_norm: _norm(add_layer_norm),
    functions.rms_norm: _norm(add_rms_norm),
    functions.group_norm: _group_norm,
    functions.cross_entropy: _loss,
    **dict.fromkeys(RELUS, _rectified),
    **dict.fromkeys(SILUS, swish),
    **dict.fromkeys(gates.PRODUCTS, gates.gate),
}
"""The last call of each pattern."""
