"""Name the layer of a model that an operation of a graph belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torch.fx import Node


def layer_of(node: Node) -> str:
    """The path of the module that an operation, or the one it is the gradient of, belongs to."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return next(_paths(stack), "")


def place_of(node: Node) -> str:
    """The layer of an operation; for one of the model itself the line of code."""
    return layer_of(node) or _line(node)


def _paths(stack: Any) -> Iterator[str]:
    """The paths of modules, the innermost first: `L['self']._modules['up']` is `up`."""
    for path, _ in reversed(list(stack.values())):
        inside = re.sub(r"^L\['\w+'\]", "", path)
        words = re.sub(r"\._modules\['(\w+)'\]", r".\1", inside)
        if words.strip("."):
            yield words.strip(".")


def _line(node: Node) -> str:
    """The innermost line of the trace of an operation, as file:line; "" if there is none."""
    trace = node.meta.get("stack_trace") or getattr(node, "stack_trace", None) or ""
    lines = re.findall(r'File "([^"]+)", line (\d+)', trace)
    if not lines:
        return ""
    file, number = lines[-1]
    return f"{file.rpartition('/')[2]}:{number}"
