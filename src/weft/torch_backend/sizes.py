"""Graphs with symbolic sizes: a program is made for each combination of sizes that is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from weft.torch_backend.layers import place_of
from weft.torch_backend.left import warn_once
from weft.torch_backend.program import GraphProgram
from weft.torch_backend.report import GraphReport

REMEMBERED = 64
"""The most programs of a graph; when exceeded, all are dropped."""
Boxed = Callable[[list[Any]], list[Any]]


def program_of(module: GraphModule, report: GraphReport) -> Boxed:
    """A graph as a function of the list of its inputs, which it empties."""
    if _is_symbolic(module):
        return _by_sizes(module, report)
    program = GraphProgram.of(module)
    report.steps = program.report
    return program


def _is_symbolic(module: GraphModule) -> bool:
    return any(has_symbols(n.meta.get("val")) for n in module.graph.nodes)


def has_symbols(value: Any) -> bool:
    """True if a value is a symbol, or a tensor whose sizes are."""
    if isinstance(value, tuple | list):
        return any(map(has_symbols, value))
    if isinstance(value, torch.Tensor):
        return any(isinstance(s, torch.SymInt) for s in (*value.shape, *value.stride()))
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _by_sizes(module: GraphModule, report: GraphReport) -> Boxed:
    programs: dict[Any, tuple[GraphProgram, list[int]]] = {}
    place = next(filter(None, map(place_of, module.graph.nodes)), "a function")

    def run(given: list[Any]) -> list[Any]:
        key = tuple(_sizes(x) for x in given)
        found = programs.get(key)
        if found is None:
            if len(programs) >= REMEMBERED:
                programs.clear()
                warn_once(
                    f"the graph of {place} was called with more than {REMEMBERED} combinations of "
                    "sizes, and each needs a program: pad its inputs to few sizes"
                )
            found = programs[key] = _specialised(module, given)
            report.steps = found[0].report
        program, tensors = found
        kept = [given[i] for i in tensors]
        given.clear()
        return program(kept)

    return run


def _sizes(x: Any) -> Any:
    return (x.shape, x.stride()) if isinstance(x, torch.Tensor) else x


def _specialised(module: GraphModule, given: list[Any]) -> tuple[GraphProgram, list[int]]:
    """The program for inputs of these sizes, and the places of the tensors among the inputs."""
    places = [i for i, x in enumerate(given) if isinstance(x, torch.Tensor)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            for x in (given[i] for i in places)
        ]

    def call(*tensors: Any) -> Any:
        values = list(given)
        for i, tensor in zip(places, tensors, strict=True):
            values[i] = tensor
        return Interpreter(module).run(*values, enable_io_processing=False)

    with torch.no_grad():
        made = make_fx(call, tracing_mode="fake")(*fakes)
    return GraphProgram.of(made), places
