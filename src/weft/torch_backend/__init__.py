"""`torch.compile(model, backend="weft")`: a model's graphs as weft's kernels.

rewrite.py    replaces calls of torch's functions by weft's ops, before autograd is traced
functions.py  the table of these functions
patterns/     replaces several calls by one op that computes them together
graphs.py     has AOTAutograd trace forward and backward passes, and compiles each graph
partition.py  divides a traced graph into forward and backward passes
cuda_graphs.py  programs as CUDA graphs, by PyTorch's trees of graphs
writer.py     adds operations to a traced graph
canonical.py  brings a traced graph into the form that is divided into steps
passes/       writes out norms and dropout, and adds gradients of residual connections in norms
delay.py      moves elementwise operations next to those that read them
lower.py      graph -> steps, with the values that each of them reads, makes and frees
merging.py    merges kernels with those that read their results
operands.py   what steps read and make
updates.py    inputs that a graph changes: kernels write to them
ahead.py      compiles the kernels of a graph in several threads
steps.py      runs one step and writes its row for the C++ code
program.py    runs the steps of a graph: in Python the first time, in C++ from then on
disk/        compiled graphs on disk: a second process starts from them
sizes.py      graphs with symbolic sizes: a program for each combination of sizes
report.py     the value that says what became of each graph
left.py       warns of what PyTorch computes; layers.py: the layer of an operation
explanation.py  `weft.explain`: the steps of a model's graphs, without running them
neighbours.py   the reasons why steps that read each other's results are not one kernel

torch finds the backend by the entry point `torch_dynamo_backends`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ops.core import bind

if TYPE_CHECKING:
    from weft.device.selection import Selection
    from weft.torch_backend.explanation import Explanation
    from weft.torch_backend.report import GraphReport

__all__ = ["compile_graph", "explain", "reports"]


def compile_graph(module: Any, inputs: Any, **options: Any) -> Any:
    """Compile a graph of torch.compile; see docs/compile.md.

    module   the graph that Dynamo has captured
    inputs   its example inputs
    options  `mode` and `options` of torch.compile
    """
    return bind.with_torch("weft.torch_backend.graphs").compile_graph(module, inputs, **options)


def explain(
    model: Any, *inputs: Any, device: str | Selection = "sim", **options: Any
) -> Explanation:
    """Show how `torch.compile(model, backend="weft")` runs a model: kernels, bytes, least times.

    model    a module or a function of PyTorch
    inputs   its arguments; `options` are those by name
    device   the GPU whose rates times are modelled with: "sim", "sim:rtx3070", "gpu"

    Each graph, forward and backward, is a list of steps: kernels that weft writes for several
    operations, ops of weft, and what is left to PyTorch, with the reason; `apart` says why
    neighbours are not one kernel. No kernel runs, and neither the model nor its gradients change.
    The result has `graphs`, `fused`, `left` and `seconds`, `html(path)` writes a page, and `print`
    shows tables.

    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU())
    >>> found = weft.explain(model, torch.zeros(2, 8))
    >>> print([(step.kind, step.name) for step in found.graphs[0].steps])
    [('op', 'weft.linear'), ('fused', 'gelu')]
    """
    explain_model = bind.with_torch("weft.torch_backend.explanation").explain
    found: Explanation = explain_model(model, *inputs, device=device, **options)
    return found


def reports() -> list[GraphReport]:
    """The reports of the graphs that this process has compiled, the oldest first."""
    found: list[GraphReport] = list(bind.with_torch("weft.torch_backend.report").REPORTS)
    return found
