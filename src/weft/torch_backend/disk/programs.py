"""The steps of a graph as bytes, and a program from them."""

from __future__ import annotations

import functools
import io
import pickle
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node

from weft.ops.core import library
from weft.ops.core.native.trace import NAMESPACE
from weft.torch_backend.program import GraphProgram

_GRAPH = "graph"
"""The name under which the graph itself is in the bytes."""


def packed(program: GraphProgram) -> bytes | None:
    """The steps of a program; None if they have a part that only this process knows."""
    if program.constants:
        return None
    graph = program.graph
    file = io.BytesIO()
    try:
        _Writer(graph, file).dump((list(graph.nodes), program.placed))
    except (pickle.PicklingError, TypeError, AttributeError):  # e.g. an operator on graphs
        return None
    return file.getvalue()


def unpacked(data: bytes) -> GraphProgram:
    """The program of such bytes."""
    graph = Graph()
    _, placed = _Reader(graph, io.BytesIO(data)).load()
    return GraphProgram(graph, placed)


class _Writer(pickle.Pickler):
    """Writes nodes in their order, so that each is made after those that it reads."""

    def __init__(self, graph: Graph, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._graph = graph
        self._known = set(graph.nodes)

    def persistent_id(self, obj: Any) -> str | None:
        return _GRAPH if obj is self._graph else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Node):
            if obj not in self._known:
                raise pickle.PicklingError("a node that is not in the graph")
            value = _described(obj.meta.get("val"))
            given = obj.op, obj.name, obj.target, obj.args, obj.kwargs, value
            return _node, (self._graph, *given)
        if isinstance(obj, torch._ops.OpOverload):
            name = obj._schema.name.partition("::")[2]
            return _operator, (obj.namespace, name, obj._overloadname)
        if isinstance(obj, torch.Tensor):
            raise pickle.PicklingError("the contents of a tensor")
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Reads the steps into a graph."""

    def __init__(self, graph: Graph, file: io.BytesIO) -> None:
        super().__init__(file)
        self._graph = graph

    def persistent_load(self, pid: Any) -> Graph:
        if pid != _GRAPH:
            raise pickle.UnpicklingError(f"unknown object {pid!r}")
        return self._graph


def _node(
    graph: Graph, op: str, name: str, target: Any, args: Any, kwargs: Any, value: Any
) -> Node:
    made = graph.create_node(op, target, args, kwargs, name)
    made.meta["val"] = _made(value)
    return made


def _operator(namespace: str, name: str, overload: str) -> Any:
    if namespace == NAMESPACE:
        library.function(name)  # registers it with torch
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


# ---- values ------------------------------------------------------------------------------------
def _described(value: Any) -> Any:
    """The layout of a fake tensor; other values are themselves."""
    if isinstance(value, tuple | list):
        return [_described(v) for v in value]
    if isinstance(value, torch.Tensor):
        sizes = tuple(value.shape), tuple(value.stride()), value.storage_offset()
        return (*sizes, value.dtype, value.device)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise pickle.PicklingError(f"a value of {type(value).__name__}")


def _made(value: Any) -> Any:
    """The inverse of `_described`. Equal layouts are one fake tensor: nothing writes to them."""
    if isinstance(value, list):
        return tuple(map(_made, value))
    return _fake(*value) if isinstance(value, tuple) else value


@functools.lru_cache(4096)
def _fake(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    with _mode():
        if not offset:
            return torch.empty_strided(shape, stride, dtype=dtype, device=device)
        last = sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        whole = torch.empty(offset + last + 1, dtype=dtype, device=device)
        return whole.as_strided(shape, stride, offset)


@functools.cache
def _mode() -> FakeTensorMode:
    return FakeTensorMode()
