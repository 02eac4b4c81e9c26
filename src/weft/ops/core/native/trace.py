"""Traces the formula of a derivative: the ops that it calls, as steps of a program in C++.

A formula may depend on layouts, options and which gradients are wanted, and on no contents of
tensors. It is traced once for each combination of layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weft.ops.core.native import launches
from weft.ops.core.native.launches import NONE, Row

NAMESPACE = "weft"
_KINDS: dict[type, str] = {
    bool: "bool", int: "int", float: "float", str: "str", torch.dtype: "dtype",
    torch.device: "device", torch.layout: "layout", torch.memory_format: "memory_format",
    type(None): "none",
}  # fmt: skip
"""Constants that the C++ code knows, by type."""
_LISTS: dict[str, tuple[type, ...]] = {"ints": (int,), "bools": (bool,), "floats": (float,)}
"""Lists that it knows, by the types of their elements."""


class Op(Protocol):
    """An op of the library."""

    arguments: list[Any]
    tensors: list[str]
    definition: Any

    @property
    def is_tracked(self) -> bool:
        """True if torch must see its calls, because it writes to arguments."""

    def entry(self, *args: Any) -> Any:
        """The plan of a call."""


OPS: dict[str, Op] = {}
"""Every op of the library that has been made, by name."""


class Untraceable(Exception):
    """A formula does something that a program cannot repeat."""


class _Step(NamedTuple):
    """A step: the tensors that it reads and makes, and its row, given their final numbers."""

    reads: list[int]
    makes: list[int]
    row: Callable[[Callable[[int], int]], Row | None]
    mutates: bool


class _Trace(TorchDispatchMode):  # type: ignore[misc]
    """Records every op that is called while it is active."""

    def __init__(self, tensors: Sequence[Any], words: Sequence[int]) -> None:
        super().__init__()
        self._words = list(words)
        self.steps: list[_Step] = []
        # All tensors are kept alive, so no other object gets the identity of one.
        self._tensors = list(tensors)
        self._numbers = {id(t): i for i, t in enumerate(tensors) if t is not None}

    def number(self, tensor: Any) -> int:
        if tensor is None:
            return NONE
        if id(tensor) not in self._numbers:
            raise Untraceable("a tensor that no op has made")
        return self._numbers[id(tensor)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema, named = func._schema, kwargs or {}
        rest = schema.arguments[len(args) :]
        values = [*args, *(named.get(a.name, a.default_value) for a in rest)]
        if func.namespace == NAMESPACE:
            return self._library(schema.name.partition("::")[2], values)
        result = func(*args, **named)
        pairs = zip(schema.arguments, values, strict=True)
        arguments = [argument(str(a.type), value, torch.Tensor, self.number) for a, value in pairs]
        reads = [n for kind, part in arguments if kind in ("tensor", "tensors") for n in part]

        def row(final: Callable[[int], int]) -> Row:
            rows = [
                (kind, [final(n) for n in part] if kind in ("tensor", "tensors") else part)
                for kind, part in arguments
            ]
            return "op", schema.name, schema.overload_name, rows

        self._add(reads, result, row, schema.is_mutable)
        return result

    def _library(self, name: str, values: Sequence[Any]) -> Any:
        op = OPS.get(name)
        if op is None or op.is_tracked:
            raise Untraceable(name)
        entry = op.entry(*values)
        named = {a.name: value for a, value in zip(op.arguments, values, strict=True)}
        given = [named[name] for name in op.tensors]
        words = [named[name] for name in op.definition.varying]
        given_by_call = bool(words) and words == self._words
        if any(words) and not given_by_call:  # a seed; 0 where no random numbers are wanted
            raise Untraceable("an integer that differs from call to call")
        result = entry.run(*given, *words)
        reads = [self.number(t) for t in given]
        fixed = None if given_by_call else words
        self._add(
            reads, result, lambda final: launches.step(entry, list(map(final, reads)), fixed), False
        )
        return result

    def _add(self, reads: list[int], result: Any, row: Any, mutates: bool) -> None:
        made = result if isinstance(result, tuple | list) else (result,)
        if not all(isinstance(t, torch.Tensor) for t in made):
            raise Untraceable("a result that is no tensor")
        first = len(self._tensors)
        for number, tensor in enumerate(made, first):
            self._numbers.setdefault(id(tensor), number)
            self._tensors.append(tensor)
        self.steps.append(_Step(reads, list(range(first, first + len(made))), row, mutates))


def argument(
    declared: str, value: Any, tensor: type, number: Callable[[Any], int]
) -> tuple[str, Any]:
    """An argument of an op as the C++ code reads it: its kind and its value.

    declared  its type in the op's schema
    tensor    the type of values that stand for tensors, which have a number
    """
    if declared == "Tensor" and type(value) in (int, float):
        return "number", value
    if declared in ("float", "Optional[float]") and type(value) is int:
        return "float", float(value)
    if isinstance(value, tensor):
        return "tensor", [number(value)]
    if isinstance(value, list | tuple):
        for kind, types in _LISTS.items():
            if all(type(v) in types for v in value) and (value or kind == "ints"):
                return kind, list(value)
        if all(isinstance(v, tensor) for v in value) and "Optional" not in declared:
            return "tensors", [number(v) for v in value]
    if type(value) not in _KINDS:
        raise Untraceable(f"an argument of type {type(value).__name__}")
    return _KINDS[type(value)], value


def traced(
    formula: Callable[[Sequence[Any]], Sequence[Any]],
    tensors: Sequence[Any],
    words: Sequence[int] = (),
) -> tuple[list[Row], list[int]]:
    """The steps of a formula, and the numbers of its results among the tensors.

    words  integers in place of those that each call gives
    """
    # Each gets an identity of its own: two arguments of the traced call may be one tensor.
    own = [None if t is None else t.detach() for t in tensors]
    trace = _Trace(own, words)
    with trace:
        results = formula(own)
    wanted = [trace.number(result) for result in results]
    kept = _needed(trace.steps, wanted)
    final = {number: number for number in range(NONE, len(own))}
    for step in kept:
        for number in step.makes:
            final[number] = len(final) - 1  # one of them is NONE
    rows = [step.row(final.__getitem__) for step in kept]
    if None in rows:
        raise Untraceable("a plan that only Python runs")
    return [row for row in rows if row is not None], [final[number] for number in wanted]


def _needed(steps: Sequence[_Step], wanted: Sequence[int]) -> list[_Step]:
    """The steps that the results depend on; a step that writes to a tensor is never left out."""
    used, kept = set(wanted), []
    for step in reversed(steps):
        if step.mutates or not used.isdisjoint(step.makes):
            used.update(step.reads)
            kept.append(step)
    return kept[::-1]
