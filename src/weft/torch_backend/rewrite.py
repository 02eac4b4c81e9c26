"""Replace calls of torch's functions in Dynamo's graph by calls of weft's ops."""

from __future__ import annotations

import inspect
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node, map_arg
from torch.utils._python_dispatch import TorchDispatchMode

from weft.errors import Error
from weft.ops.core.native.trace import NAMESPACE, OPS
from weft.torch_backend.functions import FLOATS, FunctionRow, by_target
from weft.torch_backend.layers import place_of
from weft.torch_backend.patterns.calls import join


@dataclass
class Rewritten:
    """The calls of a graph after it was rewritten.

    left      calls that stay with PyTorch, by function, and the reason
    places    the layers of these calls
    replaced  how many calls of each function became ops of weft
    """

    left: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    replaced: Counter[str] = field(default_factory=Counter)


def rewrite(module: GraphModule) -> Rewritten:
    """Change the graph of a module, and those of the modules inside it."""
    done, rows = Rewritten(), by_target()
    verdicts: dict[Any, str] = {}
    for each in module.modules():
        if not isinstance(each, GraphModule):
            continue
        for node in list(each.graph.nodes):
            row = rows.get(node.target) if node.op in ("call_function", "call_method") else None
            if row is None:
                continue
            reason = _replaced(node, row, verdicts)
            if reason:
                done.left[row.name] = reason
                done.places.setdefault(row.name, []).append(place_of(node))
            else:
                done.replaced[row.name] += 1
        done.replaced.update(join(each.graph))
        each.recompile()
    return done


def _replaced(node: Node, row: FunctionRow, verdicts: dict[Any, str]) -> str:
    """Replace one call; return the reason if it cannot be, or "".

    verdicts  the reasons of calls with equal arguments, such as those of equal layers
    """
    call = inspect.signature(row.function)
    try:
        bound = call.bind(*node.args, **node.kwargs)
    except TypeError as error:
        return str(error)
    values = map_arg(bound.arguments, lambda n: n.meta.get("example_value"))
    key = row.name, *map(_described, (*values.items(), ("", node.meta.get("example_value"))))
    if key not in verdicts:
        reason = _unsupported(values) or row.lacks(**values) or _refused(node, row, values)
        verdicts[key] = reason
    reason = verdicts[key]
    if not reason:
        node.op, node.target = "call_function", row.function
        node.args, node.kwargs = bound.args, bound.kwargs
    return reason


def _described(item: tuple[str, Any]) -> str:
    name, x = item
    if not isinstance(x, torch.Tensor):
        return f"{name}={x!r}"
    return (
        f"{name}: {x.dtype} {tuple(x.shape)} {x.stride()} {x.device} {x.requires_grad} {x.layout}"
    )


def _unsupported(values: dict[str, Any]) -> str:
    for name, x in values.items():
        if not isinstance(x, torch.Tensor):
            continue
        if x.is_complex() or (x.is_floating_point() and x.dtype not in FLOATS):
            return f"the dtype {str(x.dtype).removeprefix('torch.')} of {name}"
        if x.device.type not in ("cpu", "cuda") or x.layout is not torch.strided:
            return f"{name} on {x.device} with layout {x.layout}"
        if x.numel() == 0:
            return f"{name} has no elements"
    devices = {x.device for x in values.values() if isinstance(x, torch.Tensor)}
    return "tensors on several devices" if len(devices) > 1 else ""


def _refused(node: Node, row: FunctionRow, values: dict[str, Any]) -> str:
    """Compute the call on fake tensors; the reason if weft refuses it or makes another shape."""
    expected = node.meta.get("example_value")
    tensors = [x for x in values.values() if isinstance(x, torch.Tensor)]
    mode = next((x.fake_mode for x in tensors if isinstance(x, FakeTensor)), None)
    if mode is None or not isinstance(expected, torch.Tensor):
        return "no example of its result"
    # The graph may have entered a region of autocast itself, which is not active here.
    others = {x.dtype for x in tensors if x.is_floating_point()} - {expected.dtype}
    lowered = bool(others) and expected.dtype in (torch.float16, torch.bfloat16)
    region = torch.autocast(expected.device.type, expected.dtype) if lowered else nullcontext()
    try:
        with mode, torch.no_grad(), region, _Checks():
            made = row.function(**_copies(values))
    except Error as error:
        return str(error).splitlines()[0]
    if made.shape != expected.shape:
        return f"a result of shape {tuple(made.shape)}, expected {tuple(expected.shape)}"
    return ""


class _Checks(TorchDispatchMode):  # type: ignore[misc]
    """Checks the arguments of weft's ops, which a fake call does not."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        op = OPS.get(func._schema.name.partition("::")[2]) if func.namespace == NAMESPACE else None
        if op is not None:
            rest = func._schema.arguments[len(args) :]
            op.definition.check(*args, *(named.get(a.name, a.default_value) for a in rest))
        return func(*args, **named)


def _copies(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments whose tensors may be changed in place."""
    return {n: x.clone() if isinstance(x, torch.Tensor) else x for n, x in values.items()}
