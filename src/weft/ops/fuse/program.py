"""Run a traced function: kernels of groups, and torch's or weft's ops between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node, map_arg

from weft.ops.core import library
from weft.ops.core.runner import Run, runner
from weft.ops.fuse import table
from weft.ops.fuse.group import FusionGroup, Other, argument, shape_of
from weft.ops.fuse.groups import draws, grouped
from weft.ops.fuse.launch import Launch, launch
from weft.ops.fuse.masks import Starts, is_mask, mask_of

Values = dict[Node, Any]


@dataclass
class Bound:
    """A group whose launch has been made for the tensors of the first run."""

    group: FusionGroup
    made: Launch | None = None

    def __post_init__(self) -> None:
        self.arguments = self.group.arguments
        self.masks = [mask_of(n) for n in self.group.masks]
        self._runs: dict[bool, Run] = {}

    def __call__(self, values: Values, starts: Starts) -> None:
        tensors = [values[n] for n in self.arguments]
        begin = [starts[m.number] for m in self.masks]
        states = [s.state for s in begin if s.state is not None]
        words = [w for s in begin for w in (s.seed, s.offset)]
        run = self._runs.get(bool(states)) or self._make(tensors, states)
        assert self.made is not None
        for i in self.made.dense:
            whole = tensors[i].expand(self.group.space)
            tensors[i] = library.call("contiguous")(whole)
        results = run(*tensors, *states, *words)
        several = results if len(self.group.results) > 1 else (results,)
        values.update(zip(self.group.results, several, strict=True))

    @property
    def run(self) -> Run:
        """The launch without masks; there has been one."""
        return self._runs[False]

    def _make(self, tensors: Sequence[torch.Tensor], states: Sequence[torch.Tensor]) -> Run:
        self.made = launch(self.group, tensors, bool(states))
        device = self.group.results[0].meta["val"].device
        count, words = len(tensors) + len(states), 2 * len(self.masks)
        run = self._runs[bool(states)] = runner(self.made.plan, count, device, words)
        return run


@dataclass
class Called:
    """An operation that is called as it is."""

    other: Other

    def __post_init__(self) -> None:
        self.call = _own(self.other.node) or _torchs(self.other.node)

    def __call__(self, values: Values, starts: Starts) -> None:
        values[self.other.node] = self.call(values)


def _torchs(node: Node) -> Callable[[Values], Any]:
    target: Any = node.target

    def call(values: Values) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: values[n])
        return target(*args, **kwargs)

    return call


def _own(node: Node) -> Callable[[Values], Any] | None:
    """weft's op for a reduction that no kernel contains."""
    name = table.name_of(node.target)
    if name not in table.REDUCTIONS or node.kwargs:
        return None
    op, value, dims = library.call(name), node.args[0], argument(node, 1, "dim")
    dims = tuple(dims) if isinstance(dims, list) else dims
    keeps = bool(argument(node, 2, "keepdim", False))
    assert isinstance(value, Node)
    return lambda values: op(values[value], dims or None, keeps)


class FusedProgram:
    """The steps of a graph for tensors of fixed layouts.

    steps  groups and other operations, in the order in which they run
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = [Bound(s) if isinstance(s, FusionGroup) else Called(s) for s in grouped(graph)]
        self.inputs = [n for n in graph.nodes if n.op == "placeholder"]
        self.output = next(n for n in graph.nodes if n.op == "output").args[0]
        self._collect = _collector(self.output)
        module: Any = graph.owning_module
        self.masks = [mask_of(n) for n in graph.nodes if is_mask(n)]
        self.constants = {n: getattr(module, n.target) for n in graph.nodes if n.op == "get_attr"}

    def __call__(self, tensors: Sequence[torch.Tensor], starts: Starts) -> Any:
        values: Values = {**self.constants, **dict(zip(self.inputs, tensors, strict=True))}
        for step in self.steps:
            step(values, starts)
        return self._collect(values)

    def direct(self) -> Run | None:
        """The launch itself as a function of the tensors, if the program is no more than that."""
        step, constants = self.steps[0] if len(self.steps) == 1 else None, self.constants
        if not isinstance(step, Bound) or step.masks or constants or step.made is None:
            return None
        several = isinstance(self.output, tuple)
        wanted = list(self.output) if several else [self.output]
        made = step.group.results
        if step.made.dense or several != (len(wanted) > 1) or len(wanted) != len(made):
            return None
        if set(wanted) != set(made):
            return None
        run, order = step.run, [self.inputs.index(n) for n in step.arguments]
        given = run if order == _counted(self.inputs) else _with_inputs(run, order)
        places = [made.index(n) for n in wanted]
        if places == _counted(made):
            return given

        return _with_results(given, places)

    @property
    def drawing(self) -> list[Node]:
        """Operations that draw random numbers, beside dropout."""
        apart = (s.other.node for s in self.steps if isinstance(s, Called))
        return [n for n in apart if draws(n)]

    @property
    def sources(self) -> list[str]:
        """The text of each kernel that has run."""
        return [s.made.source for s in self.steps if isinstance(s, Bound) and s.made is not None]

    def explain(self) -> list[str]:
        """One line for each step."""
        lines = []
        for step in self.steps:
            if isinstance(step, Called):
                node = step.other.node
                lines.append(f"{node.target} apart: {step.other.why}")
                continue
            lines.append(_kernel_line(step.group))
        return lines


def _with_inputs(run: Run, order: Sequence[int]) -> Run:
    return lambda *tensors: run(*[tensors[i] for i in order])


def _with_results(run: Run, order: Sequence[int]) -> Run:
    def reordered(*tensors: torch.Tensor) -> Any:
        results = run(*tensors)
        return tuple([results[i] for i in order])

    return reordered


def _counted(values: Sequence[Any]) -> list[int]:
    return list(range(len(values)))


def _collector(output: Any) -> Callable[[Values], Any]:
    """The function that makes a program's result; quick for one tensor and for several."""
    if isinstance(output, Node):
        return lambda values: values[output]
    if isinstance(output, tuple) and all(isinstance(n, Node) for n in output):
        return lambda values: tuple([values[n] for n in output])
    return lambda values: map_arg(output, lambda n: values[n])


def _kernel_line(group: FusionGroup) -> str:
    moved = sum(_bytes(n) for n in (*group.arguments, *group.results))
    space = "x".join(map(str, group.space)) or "1"
    kind = f"{group.rows} rows of {group.n}" if group.k else space
    operations = [table.name_of(n.target) for n in group.nodes]
    names = ", ".join([*operations, *("dropout" for _ in group.masks)])
    return f"one kernel over {kind}, {moved:,} bytes: {names}"


def _bytes(node: Node) -> int:
    return math.prod(shape_of(node)) * int(node.meta["val"].element_size())
