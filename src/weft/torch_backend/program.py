"""Run the steps of a graph: in Python the first time, by one program of the C++ code afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from weft.ops.core.native import loaded, trace
from weft.ops.fuse import table
from weft.ops.fuse.group import FusionGroup, Step
from weft.ops.fuse.groups import Apart
from weft.torch_backend import ahead
from weft.torch_backend import steps as stepping
from weft.torch_backend.canonical import canonical
from weft.torch_backend.delay import delay
from weft.torch_backend.lower import Placed, lower
from weft.torch_backend.operands import is_item, made_by, read_by, size_of
from weft.torch_backend.passes import conversions, dropouts, gradients, joins, norms, residuals
from weft.torch_backend.report import StepReport
from weft.torch_backend.steps import AnyStep, Numbers, TorchStep, Values

REMEMBERED = 16
"""The most versions of a program, for inputs of other layouts; when exceeded, all are dropped."""
Native = Callable[[list[Any]], Any]


class GraphProgram:
    """A graph whose sizes are numbers, as a function of the list of its inputs.

    The list is emptied, as AOTAutograd allows it, so that inputs are freed after their last use.
    """

    def __init__(
        self, graph: Graph, placed: list[Placed], constants: dict[Node, Any] | None = None
    ) -> None:
        """Make a program of the steps of a graph.

        constants  the tensors that the graph itself has
        """
        self.graph, self.placed, self.constants = graph, placed, constants or {}
        nodes = list(graph.nodes)
        self.inputs = [n for n in nodes if n.op == "placeholder"]
        returned = list(nodes[-1].args[0])
        self.outputs = [n if isinstance(n, Node) else None for n in returned]
        self.fixed = [
            (i, n) for i, n in enumerate(returned) if n is not None and not isinstance(n, Node)
        ]
        self.frees_first = _unused(self.inputs)
        self.compiling = ahead.begin([p.step for p in self.placed])
        self._versions: dict[Any, _Version] = {}
        self._last: Native = _unknown

    @classmethod
    def of(cls, module: GraphModule) -> GraphProgram:
        """The program of a traced graph, which is brought into another form."""
        placed, graph = lowered(module), module.graph
        held = [n for n in graph.nodes if n.op == "get_attr"]
        return cls(graph, placed, {n: _attribute(module, str(n.target)) for n in held})

    def __call__(self, given: list[Any]) -> list[Any]:
        found: list[Any] = self._last(given)
        if found is NotImplemented:
            found = self._by_layouts(given)
        for place, number in self.fixed:
            found[place] = number
        return found

    def _by_layouts(self, given: list[Any]) -> list[Any]:
        """Run the version for the layouts of these inputs, which is made if it is new."""
        key = tuple(map(_layout, given))
        version = self._versions.get(key)
        if version is None:
            if len(self._versions) >= REMEMBERED:
                self._versions.clear()
            version = self._versions[key] = _Version(self)
        if version.native is not None:
            self._last = version.native
            found: list[Any] = version.native(given)
            if found is not NotImplemented:
                return found
        return version.run(given)

    @property
    def report(self) -> list[StepReport]:
        """The steps, without those that move no data."""
        return [reported(p.step) for p in self.placed if not is_view(p.step)]


def lowered(module: GraphModule, apart: Apart | None = None) -> list[Placed]:
    """The steps of a graph, which is brought into another form; `apart` as in `lower`."""
    canonical(module.graph)
    joins.join(module.graph)
    residuals.add_within(module.graph)
    conversions.join(module.graph)
    gradients.widen(module.graph)
    dropouts.write_out(module.graph)
    norms.write_out(module.graph)
    delay(module.graph)
    return lower(module.graph, apart)


class _Version:
    """The steps of a program for inputs of one combination of layouts.

    native  the program of the C++ code; None until there is one
    """

    def __init__(self, program: GraphProgram) -> None:
        self.program = program
        self.steps: list[AnyStep] = [stepping.made(p.step, p.into) for p in program.placed]
        self.native: Native | None = None
        self.refused = False
        self.copied: dict[Node, tuple[int, ...]] = {}

    def run(self, given: list[Any]) -> list[Any]:
        """Run the steps in Python; where the C++ code is at hand, write the program for it."""
        program, device = self.program, _device(given)
        values: Values = dict(zip(program.inputs, given, strict=True)) | program.constants
        native = None if self.refused or device is None else loaded.module(device)
        numbers = None if native is None else Numbers((*program.inputs, *program.constants))
        expected = list(given) if numbers is not None else []
        given.clear()
        if numbers is not None and program.frees_first:
            numbers.rows.append(("free", [numbers(n) for n in program.frees_first]))
        for node in program.frees_first:
            del values[node]
        for number, (step, placed) in enumerate(zip(self.steps, program.placed, strict=True)):
            ahead.finish(program.compiling[number])
            step(values)
            if not isinstance(step, TorchStep):
                self._restride(placed, values)
            if numbers is not None:
                numbers = self._recorded(step, placed, numbers, values)
            for node in placed.frees:
                del values[node]
        results = [None if n is None else values[n] for n in program.outputs]
        if numbers is not None and native is not None:
            places = [numbers(n) for n in program.outputs]
            made = native.program(numbers.rows, places)
            self.native = native.boxed(made, expected, list(program.constants.values()))
        return results

    def _recorded(
        self, step: AnyStep, placed: Placed, numbers: Numbers, values: Values
    ) -> Numbers | None:
        """Add the rows of a step; None if only Python can run it."""
        try:
            step.record(numbers, values)
        except trace.Untraceable:
            self.refused = True
            return None
        dead = []
        for node in _kept(placed):
            number = numbers.of[node]
            if isinstance(number, list):  # its items are freed one by one
                taken = {user.args[1] for user in node.users if is_item(user)}
                dead += [n for i, n in enumerate(number) if i not in taken]
            elif (strides := self.copied.get(node)) is not None:
                row = "function", [number], _restrider(strides), 0
                (numbers.of[node],) = numbers.add(row, 1)
                dead.append(number)
        dead += [numbers(n) for n in placed.frees if not isinstance(numbers.of[n], list)]
        if dead:
            numbers.rows.append(("free", dead))
        return numbers

    def _restride(self, placed: Placed, values: Values) -> None:
        """Give the results of weft's kernels the strides that the graph was traced with.

        Later operations of torch depend on them, and so does the backward pass.
        """
        for node in _kept(placed):
            value, expected = values[node], node.meta.get("val")
            both = isinstance(value, torch.Tensor) and isinstance(expected, torch.Tensor)
            if both and _steps(value) != _steps(expected):
                self.copied[node] = strides = tuple(expected.stride())
                values[node] = _restrider(strides)(value)


def _kept(placed: Placed) -> list[Node]:
    """The values that a step makes, without those that it writes to inputs."""
    return [n for n in made_by(placed.step) if n not in placed.into]


def _steps(x: torch.Tensor) -> list[int]:
    """The strides that have an effect."""
    if x.numel() == 0:
        return []
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]


def _restrider(strides: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    def restrided(x: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
        return made.copy_(x)

    return restrided


def _unknown(given: list[Any]) -> Any:
    return NotImplemented


def _unused(inputs: Sequence[Node]) -> list[Node]:
    return [n for n in inputs if not n.users]


def _layout(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return x.data_ptr() & 15, x.shape, x.stride()


def _device(given: Sequence[Any]) -> torch.device | None:
    """The device of the tensors; None if there are none, or a GPU is not the only one.

    Single numbers may be on the CPU: PyTorch's operations take them.
    """
    found = {x.device for x in given if isinstance(x, torch.Tensor)}
    if len(found) == 1 and all(isinstance(x, torch.Tensor) or x is None for x in given):
        return found.pop()
    return None


def _attribute(module: GraphModule, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


# ---- the report --------------------------------------------------------------------------------
def is_view(step: Step) -> bool:
    """True for a step that moves no data."""
    if isinstance(step, FusionGroup):
        return False
    return is_item(step.node) or "moves no data" in step.why


def reported(step: Step) -> StepReport:
    """Describe a step for a report."""
    moved = sum(map(size_of, {*read_by(step), *made_by(step)}))
    if isinstance(step, FusionGroup):
        operations = [table.name_of(n.target) for n in step.nodes]
        names = ", ".join([*operations, *("dropout" for _ in step.masks)])
        return StepReport("fused", names, moved)
    target: Any = step.node.target
    name = str(target).removesuffix(".default")
    if getattr(target, "namespace", "") == trace.NAMESPACE:
        return StepReport("op", name, moved)
    return StepReport("torch", name, moved, step.why)
