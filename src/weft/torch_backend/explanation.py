"""Explain a model: compile its graphs as the backend does, and say what became of each step.

No kernel is compiled and none runs. Graphs return zeros of the right shapes, so that the backward
pass is traced too, and neither gradients nor buffers change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node, map_arg

from weft.device.models import GpuModel
from weft.device.selection import Selection, select
from weft.errors import ArgumentError
from weft.frontends.pytorch import costs
from weft.measure.profile import floor
from weft.ops.fuse.group import FusionGroup, Step
from weft.ops.fuse.groups import Apart
from weft.torch_backend.graphs import by_passes
from weft.torch_backend.layers import layer_of
from weft.torch_backend.neighbours import not_fused
from weft.torch_backend.operands import made_by
from weft.torch_backend.program import is_view, lowered, reported
from weft.torch_backend.rewrite import Rewritten, rewrite
from weft.values.explanation import ExplainedGraph, ExplainedStep, ModelExplanation

if TYPE_CHECKING:
    from pathlib import Path


class Explanation(ModelExplanation):
    """An explanation that shows itself."""

    def __str__(self) -> str:
        from weft.report.model.explanation import text

        return text(self)

    def html(self, path: str | Path) -> None:
        """Write a page with a bar per step."""
        from weft.report.files import write
        from weft.report.model.explanation import page

        write(path, page(self))

    def _repr_html_(self) -> str:
        """The notebook's view: the page in an iframe."""
        from weft.report import cells
        from weft.report.model.explanation import page

        return cells.frame(page(self), "weft explain")


def explain(
    model: Callable[..., Any], *inputs: Any, device: str | Selection = "sim", **options: Any
) -> Explanation:
    """Explain a model for these inputs; see `weft.explain`."""
    if not callable(model):
        raise ArgumentError(
            "explain takes a module or a function of PyTorch",
            got=repr(model),
            allowed="weft.explain(model, x)",
        )
    gpu, graphs = select(device).model, list[ExplainedGraph]()
    backend = functools.partial(_graph, gpu, graphs)
    # Graphs that are compiled already would not be seen, and too many make dynamo give up.
    torch._dynamo.reset_code_caches()
    try:
        compiled = torch.compile(model, backend=backend, dynamic=False)
        cuda = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        with torch.random.fork_rng(list(cuda)):
            _backward(compiled(*inputs, **options), _leaves(model, inputs))
    finally:
        torch._dynamo.reset_code_caches()
    if not graphs:
        raise ArgumentError(
            "the model has no operation that torch.compile captures",
            got=_name(model),
            next="TORCH_LOGS=graph_breaks shows why",
        )
    return Explanation(_name(model), gpu.name, tuple(graphs))


def _name(model: Callable[..., Any]) -> str:
    return str(getattr(model, "__name__", type(model).__name__))


def _leaves(model: Any, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that a training step would compute gradients of."""
    own = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    return [t for t in (*own, *costs.tensors(inputs)) if t.requires_grad]


def _backward(results: Any, leaves: Sequence[torch.Tensor]) -> None:
    """Trace the backward pass where there is one; gradients of leaves stay as they are."""
    sums = [t for t in costs.tensors(results) if t.requires_grad]
    if sums and leaves:
        torch.autograd.grad(sums, leaves, list(map(torch.zeros_like, sums)), allow_unused=True)


def _graph(
    gpu: GpuModel, graphs: list[ExplainedGraph], module: GraphModule, inputs: Sequence[Any]
) -> Callable[..., Any]:
    """The backend: explains each pass of a graph of Dynamo."""
    explained = functools.partial(_explained, gpu, graphs, rewrite(module))
    return by_passes(module, inputs, explained)


def _explained(
    gpu: GpuModel,
    graphs: list[ExplainedGraph],
    rewritten: Rewritten,
    kind: str,
    module: GraphModule,
    inputs: Sequence[Any],
) -> Callable[..., Any]:
    results = [_value(n) for n in list(module.graph.nodes)[-1].args[0]]
    apart: Apart = {}
    found = [p.step for p in lowered(module, apart)]
    steps = tuple(_step(gpu, step) for step in found if not _moves_nothing(step))
    pairs = not_fused(found, apart, lambda step: reported(step).name, _moves_nothing)
    left, replaced = dict(rewritten.left), dict(rewritten.replaced)
    graphs.append(ExplainedGraph(kind, steps, left, replaced, pairs))

    def run(given: list[Any]) -> list[Any]:
        given.clear()
        return [_zeros(value) for value in results]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _value(result: Any) -> Any:
    return result.meta["val"] if isinstance(result, Node) else result


def _zeros(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.zero_()


# ---- steps -------------------------------------------------------------------------------------
def _step(gpu: GpuModel, step: Step) -> ExplainedStep:
    found = reported(step)
    flops, unit = _arithmetic(step)
    moving = found.bytes / (gpu.memory_gb_per_s * 1e9)
    computing = flops / floor.ceilings(gpu)[unit]
    limit = costs.DRAM if moving >= computing else unit
    layer = next(filter(None, map(layer_of, _nodes(step))), "")
    return ExplainedStep(
        found.kind, found.name, layer, found.bytes, flops, max(moving, computing), limit, found.why
    )


def _moves_nothing(step: Step) -> bool:
    """True for views, also those with several results."""
    if is_view(step) or isinstance(step, FusionGroup):
        return is_view(step)
    target = step.node.target
    return isinstance(target, torch._ops.OpOverload) and costs.is_view(target)


def _nodes(step: Step) -> list[Node]:
    return list(step.nodes) if isinstance(step, FusionGroup) else [step.node]


def _arithmetic(step: Step) -> tuple[float, str]:
    """The FLOPs of a step and their unit."""
    if isinstance(step, FusionGroup):
        made = [n.meta["val"] for n in made_by(step)]
        return float(sum(t.numel() for t in made if isinstance(t, torch.Tensor))), "fp32"
    node = step.node
    if not isinstance(node.target, torch._ops.OpOverload):
        return 0.0, "fp32"
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    return costs.arithmetic(node.target, args, kwargs, node.meta["val"])
