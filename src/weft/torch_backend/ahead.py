"""Compile the kernels of a graph in several threads, before its first run needs them one by one."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from torch.fx import Node, map_arg

from weft.ops.core import arguments
from weft.ops.core.choose import Request
from weft.ops.core.native import trace
from weft.ops.core.plan import Layout
from weft.ops.core.runner import runner
from weft.ops.core.target import target
from weft.ops.fuse.group import FusionGroup, Step
from weft.ops.fuse.launch import launch_of

Work = Future[None] | None


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 1), "weft-compile")


def begin(steps: Sequence[Step]) -> list[Work]:
    """Start to compile the kernels of steps on a GPU; one future for each, None for no kernels."""
    begun: dict[str, Future[None]] = {}
    found: list[Work] = []
    for step in steps:
        device = _device(step)
        masked = isinstance(step, FusionGroup) and step.masks  # its first run compiles it
        if device is None or device.type != "cuda" or masked:
            found.append(None)
        elif isinstance(step, FusionGroup):
            key = _signature(step)
            if key not in begun:
                begun[key] = _pool().submit(_fused, step, device)
            found.append(begun[key])
        else:
            request = request_of(step.node, device)
            key = "" if request is None else request.key()
            if request is not None and key not in begun:
                begun[key] = _pool().submit(_op, request, device)
            found.append(begun.get(key))
    return found


def finish(work: Work) -> None:
    """Wait for the kernels of a step. An error is raised by the step itself, when it runs."""
    if work is not None:
        wait([work])


def _device(step: Step) -> torch.device | None:
    node = step.results[0] if isinstance(step, FusionGroup) else step.node
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) and value else value
    return first.device if isinstance(first, torch.Tensor) else None


def _layout(x: torch.Tensor) -> Layout:
    """The layout of a fake tensor: memory is allocated at multiples of 16 bytes."""
    start = _address(x)
    return Layout(x.dtype, tuple(x.shape), tuple(x.stride()), start & -start if start else 16)


def _address(x: torch.Tensor) -> int:
    return int(x.storage_offset() * x.element_size()) % 16


def _signature(group: FusionGroup) -> str:
    """A text that is equal for groups with the same kernel, such as those of equal layers."""
    values = [*group.arguments, *group.nodes]
    numbers = {n: i for i, n in enumerate(values)}
    layouts = [
        (str(x.dtype), tuple(x.shape), tuple(x.stride()), _address(x))
        for x in (n.meta["val"] for n in values)
    ]
    calls = [
        (str(n.target), map_arg((n.args, n.kwargs), lambda i: numbers.get(i, str(i.args))))
        for n in group.nodes
    ]
    return repr((layouts, calls, [numbers[n] for n in group.results]))


def _fused(group: FusionGroup, device: torch.device) -> None:
    values = [n.meta["val"] for n in group.arguments]
    made = launch_of(group, list(map(_layout, values)), list(map(_address, values)))
    runner(made.plan, len(values), device)


def request_of(node: Node, device: torch.device) -> Request | None:
    """The request of a call of an op of weft in a graph; None for other calls."""
    whose: Any = node.target
    if getattr(whose, "namespace", "") != trace.NAMESPACE:
        return None
    op = trace.OPS.get(whose._schema.name.partition("::")[2])
    if op is None or op.is_tracked:
        return None
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    rest = op.arguments[len(args) :]
    values = [*args, *(kwargs.get(a.name, a.default_value) for a in rest)]
    named = {
        a.name: arguments.as_torch_passes(a, v) for a, v in zip(op.arguments, values, strict=True)
    }
    tensors = [named.pop(name) for name in op.tensors]
    for name in op.definition.varying:
        del named[name]
    layouts = tuple(None if t is None else _layout(t) for t in tensors)
    return Request(op.definition.name, layouts, named, target(device))


def _op(request: Request, device: torch.device) -> None:
    op: Any = trace.OPS[request.op]
    op.entry_of(request, device)
