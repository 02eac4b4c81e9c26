"""Run one step of a graph in Python, and write the rows by which the C++ code repeats it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node, map_arg

from weft.ops.core import library
from weft.ops.core.native import launches, trace
from weft.ops.core.native.launches import NONE, Row
from weft.ops.core.plan import Plan
from weft.ops.core.runner import Run, runner
from weft.ops.fuse.group import FusionGroup, Other
from weft.ops.fuse.launch import launch
from weft.torch_backend.updates import in_place

Values = dict[Node, Any]


class Entry(NamedTuple):
    """A plan and the function that runs it; see `launches.Entry`."""

    plan: Plan
    run: Run
    device: torch.device


class Numbers:
    """The numbers of tensors in a program of the C++ code: inputs, then results of the rows."""

    def __init__(self, inputs: Iterable[Node]) -> None:
        self.of: dict[Node, Any] = {n: i for i, n in enumerate(inputs)}
        self.count = len(self.of)
        self.rows: list[Row] = []

    def __call__(self, node: Node | None) -> int:
        return NONE if node is None else int(self.of[node])

    def add(self, row: Row, results: int) -> list[int]:
        """Append a row that makes so many tensors; return their numbers."""
        self.rows.append(row)
        first, self.count = self.count, self.count + results
        return list(range(first, self.count))


class GroupStep:
    """A kernel of fused operations.

    into  results that are written to an input of the graph, by the input
    """

    def __init__(self, group: FusionGroup, into: Mapping[Node, Node]) -> None:
        self.group, self.into = group, dict(into)
        self.arguments = [*group.arguments, *group.states, *self.into.values()]
        self.words = (0,) * (2 * len(group.masks))  # states replace seeds and offsets
        self.results = [n for n in group.results if n not in self.into]
        self.device = group.results[0].meta["val"].device
        self.dense: tuple[int, ...] = ()
        self.copies = False
        self.entry: Entry | None = None

    def __call__(self, values: Values) -> None:
        tensors = [values[n] for n in self.arguments]
        if self.entry is None:
            self.entry = self._made(tensors)
        for i in self.dense:
            tensors[i] = library.call("contiguous")(tensors[i].expand(self.group.space))
        made = self.entry.run(*tensors, *self.words)
        if self.copies:  # of results into inputs
            of = dict(zip(self.group.results, _several(made), strict=True))
            for result, target in self.into.items():
                values[target].copy_(of[result])
            values.update({n: of[n] for n in self.results})
        else:
            values.update(zip(self.results, _several(made), strict=False))

    def _made(self, tensors: Sequence[torch.Tensor]) -> Entry:
        count = len(self.group.arguments) + len(self.group.states)
        given = tensors[: len(self.group.arguments)]
        made = launch(self.group, given, bool(self.group.states))
        self.dense, plan = made.dense, made.plan
        # A kernel may read the elements beside a misaligned one, which another thread has written.
        self.copies = any(t.data_ptr() % 16 for t in tensors[count:])
        if self.copies:
            run = runner(plan, count, self.device, len(self.words))
            return Entry(plan, lambda *all: run(*all[:count], *self.words), self.device)
        if self.into:
            places = [i for i, n in enumerate(self.group.results) if n in self.into]
            plan = in_place(plan, count, places)
        run = runner(plan, len(tensors), self.device, len(self.words))
        return Entry(plan, run, self.device)

    def record(self, numbers: Numbers, values: Values) -> None:
        """Add the rows of a step that has run."""
        assert self.entry is not None
        if self.copies:
            raise trace.Untraceable("an input that is written to and not aligned")
        given = [numbers(n) for n in self.arguments]
        for i in self.dense:
            given[i] = _contiguous(numbers, given[i], values[self.arguments[i]], self.group.space)
        row = launches.step(self.entry, given, self.words)
        if row is None:
            run, words = self.entry.run, self.words
            row = "function", given, lambda *tensors: run(*tensors, *words), 0
        numbers.of.update(zip(self.results, numbers.add(row, len(self.results)), strict=True))


def _several(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _contiguous(numbers: Numbers, number: int, x: torch.Tensor, space: tuple[int, ...]) -> int:
    sizes = list(space)
    row = "op", "aten::expand", "", [("tensor", [number]), ("ints", sizes), ("bool", False)]
    (wide,) = numbers.add(row, 1)
    entry = library.function("contiguous").entry(x.expand(space))
    copy = launches.step(entry, [wide]) or ("function", [wide], entry.run, 0)
    return numbers.add(copy, 1)[0]


class OpStep:
    """An op of weft."""

    def __init__(self, node: Node, op: Any) -> None:
        self.node, self.op = node, op
        self.entry: Any = None

    def __call__(self, values: Values) -> None:
        args = _arguments(self.node, values)
        self.entry = self.op.entry(*args)
        values[self.node] = self.entry.run(*self._inputs(args))

    def _inputs(self, args: Sequence[Any]) -> list[Any]:
        named = dict(zip((a.name for a in self.op.arguments), args, strict=True))
        return [named[n] for n in (*self.op.tensors, *self.op.definition.varying)]

    def record(self, numbers: Numbers, values: Values) -> None:
        """Add the row of a step that has run."""
        schema = self.node.target._schema.arguments
        given: dict[str, Any] = dict(zip((a.name for a in schema), self.node.args, strict=False))
        given |= self.node.kwargs
        tensors = [numbers(given.get(name)) for name in self.op.tensors]
        words = [given.get(name, 0) for name in self.op.definition.varying]
        row = launches.step(self.entry, tensors, words)
        if row is None:
            run, fixed = self.entry.run, tuple(words)
            row = "function", tensors, lambda *given: run(*given, *fixed), 0
        made = numbers.add(row, len(self.entry.plan.outputs))
        numbers.of[self.node] = made if isinstance(values[self.node], tuple) else made[0]


def _arguments(node: Node, values: Values) -> list[Any]:
    """All arguments of a call in the order of the schema."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: values[n])
    schema: Any = node.target._schema.arguments
    return [*args, *(kwargs.get(a.name, a.default_value) for a in schema[len(args) :])]


class TorchStep:
    """An operation that PyTorch computes; also views, which compute nothing."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.target: Any = node.target

    def __call__(self, values: Values) -> None:
        args, kwargs = map_arg((self.node.args, self.node.kwargs), lambda n: values[n])
        values[self.node] = self.target(*args, **kwargs)

    def record(self, numbers: Numbers, values: Values) -> None:
        """Add the row of a step that has run."""
        made = values[self.node]
        several = isinstance(made, list | tuple)
        results = made if several else (made,)
        if any(t is not None and not isinstance(t, torch.Tensor) for t in results):
            raise trace.Untraceable(f"a result of {self.target} that is no tensor")
        found = numbers.add(self._row(numbers, values), len(results))
        numbers.of[self.node] = found if several else found[0]

    def _row(self, numbers: Numbers, values: Values) -> Row:
        """The row of an operation that the C++ code can call, else of a function of Python."""
        if isinstance(self.target, torch._ops.OpOverload):
            try:
                return self._operator(numbers)
            except trace.Untraceable:
                pass  # an argument that the C++ code does not know: Python calls the operation
        inputs = self.node.all_input_nodes
        if any(not isinstance(values[n], torch.Tensor) for n in inputs):
            raise trace.Untraceable(f"an argument of {self.target} that is no tensor")
        return "function", [numbers(n) for n in inputs], self._function(inputs), 0

    def _operator(self, numbers: Numbers) -> Row:
        schema, node = self.target._schema, self.node
        if any("Tensor" not in str(r.type) for r in schema.returns):
            raise trace.Untraceable("a result that is no tensor")
        rest = schema.arguments[len(node.args) :]
        values = [*node.args, *(node.kwargs.get(a.name, a.default_value) for a in rest)]
        pairs = zip(schema.arguments, values, strict=True)
        rows = [trace.argument(str(a.type), v, Node, numbers) for a, v in pairs]
        return "op", schema.name, schema.overload_name, rows

    def _function(self, inputs: Sequence[Node]) -> Callable[..., Any]:
        def call(*tensors: Any) -> Any:
            values = dict(zip(inputs, tensors, strict=True))
            self(values)
            made = values[self.node]
            return tuple(made) if isinstance(made, list) else made

        return call


class ItemStep:
    """One of several results."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __call__(self, values: Values) -> None:
        whole, place = self.node.args
        values[self.node] = values[whole][place]

    def record(self, numbers: Numbers, values: Values) -> None:
        """Note the number; there is nothing to do."""
        whole, place = self.node.args
        numbers.of[self.node] = numbers.of[whole][place]


AnyStep = GroupStep | OpStep | TorchStep | ItemStep


def made(step: FusionGroup | Other, into: Mapping[Node, Node]) -> AnyStep:
    """The step that runs a part of a graph."""
    if isinstance(step, FusionGroup):
        return GroupStep(step, into)
    target: Any = step.node.target
    if target is operator.getitem:
        return ItemStep(step.node)
    if isinstance(target, torch._ops.OpOverload) and target.namespace == trace.NAMESPACE:
        op = trace.OPS.get(target._schema.name.partition("::")[2])
        if op is not None and not op.is_tracked:
            return OpStep(step.node, op)
    return TorchStep(step.node)
