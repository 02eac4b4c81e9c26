"""Keep norms in half precision where autocast would convert their results back to it.

autocast has norms compute in float32. The ops do so in registers: of a tensor of 16 bits they make
the same result of 16 bits that the conversion after the norm would make, and so do the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.fx import Node

from weft.torch_backend import functions
from weft.torch_backend.patterns.nodes import arguments, value_of

HALVES = (torch.float16, torch.bfloat16)
_READERS = {
    functions.linear: 1, functions.conv1d: 1, functions.conv2d: 1, functions.attention: 3,
}  # fmt: skip
"""Functions whose operands autocast converts, and how many of the first are activations."""


def kept(x: Any, *weights: Any) -> AbstractContextManager[Any]:
    """A region in which autocast does not convert the inputs of a norm of 16 bits."""
    fits = x.dtype in HALVES and _fit(x, weights)
    return torch.autocast(x.device.type, enabled=False) if fits else nullcontext()


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    with kept(input, weight, bias):
        return functions.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    with kept(input, weight):
        return functions.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    with kept(input, weight, bias):
        return functions.group_norm(input, num_groups, weight, bias, eps)


_KEPT = {
    functions.layer_norm: layer_norm,
    functions.rms_norm: rms_norm,
    functions.group_norm: group_norm,
}
GROUP_NORMS = (functions.group_norm, group_norm)


def lower(node: Node) -> None:
    """Note that a norm of 16 bits has a result of 16 bits where autocast makes one of it."""
    given = arguments(node, "input", "shape", "weight", "bias")
    x, value = value_of(given["input"]), value_of(node)
    weights = [value_of(given.get(name)) for name in ("weight", "bias")]
    lowered = x.dtype in HALVES and _fit(x, weights) and is_lowered(node, x.dtype)
    if lowered and value.dtype is torch.float32:
        node.meta["example_value"] = value.to(x.dtype)


def keep(node: Node) -> None:
    """Have a norm compute in the dtype of its input where its result has it."""
    x, value = value_of(arguments(node, "input")["input"]), value_of(node)
    if x.dtype in HALVES and x.dtype is value.dtype:
        node.target = _KEPT[node.target]


def _fit(x: Any, weights: Sequence[Any]) -> bool:
    """True if the ops take these weights as they are."""
    dtypes = {w.dtype for w in weights if w is not None}
    return len(dtypes) < 2 and dtypes <= {x.dtype, torch.float32}


def is_lowered(node: Node, dtype: torch.dtype) -> bool:
    """True if autocast converts a result to this dtype wherever it is read."""
    return bool(node.users) and all(
        any(a is node for a in user.args[: _READERS.get(user.target, 0)])
        and [n for n in user.all_input_nodes if n is node] == [node]
        and value_of(user).dtype is dtype
        for user in node.users
    )
