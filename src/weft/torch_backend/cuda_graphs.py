"""Programs as CUDA graphs, by PyTorch's own trees of graphs: `mode="reduce-overhead"`.

The trees own the memory of all graphs of a model, so that forward and backward passes share one
pool. They capture a program at its second call with inputs of the same addresses, and run it
without a graph where it cannot be captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from weft.ops.core import runner

Boxed = Callable[[list[Any]], list[Any]]


@dataclass
class Capture:
    """The graphs of one model, whose passes know of each other.

    refused  the reason why the forward pass is no graph, or ""
    """

    refused: str = ""

    def wrap(
        self, kind: str, module: GraphModule, inputs: Sequence[Any], make: Callable[[], Boxed]
    ) -> Boxed:
        """The function that replays a program; `make` makes the program itself."""
        device, changed = _device(module), _changed(module)
        if device is None or device.type != "cuda":
            self.refused = "tensors that are not on one GPU"
            return make()
        # They are slow to import, and need a GPU.
        from torch._inductor.cudagraph_trees import cudagraphify_impl, get_container, get_manager
        from torch._inductor.cudagraph_utils import get_placeholder_info

        fixed = self._fixed(kind, module)
        placeholders = get_placeholder_info(module.graph)  # before `make` changes the graph
        outputs = next(n for n in module.graph.nodes if n.op == "output").args[0]
        traces = [getattr(n, "stack_trace", None) for n in outputs]
        moves = not set(changed) <= set(fixed)
        run = make()
        if kind != "backward" and moves:
            self.refused = "an input that is changed and may move"
        if self.refused:
            return run
        plain = _after_graph(run, get_manager) if kind == "backward" else run
        if moves:
            return plain
        # Counters stay for all launches of a stream: the trees' pool must not have them.
        with torch.cuda.stream(get_container(device.index or 0).get_tree_manager().stream):
            runner.counters(device)
        replay: Boxed = cudagraphify_impl(
            run,
            list(inputs),
            fixed,
            device_index=device.index or 0,
            is_backward=kind == "backward",
            is_inference=kind == "inference",
            stack_traces=traces,
            placeholders=placeholders,
            mutated_input_idxs=tuple(changed),
        )
        return _after_first(plain, replay)

    def _fixed(self, kind: str, module: GraphModule) -> list[int]:
        """The places of inputs whose addresses stay the same from call to call."""
        if kind == "backward":
            from torch._inductor.utils import count_tangents

            return list(range(count_tangents(module)))  # what the forward pass has saved
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        return list(metadata.static_input_indices) if metadata is not None else []


def _after_first(plain: Boxed, replay: Boxed) -> Boxed:
    """Make the first call without a graph: plans keep tables, which no pool may have."""
    called = False

    def run(given: list[Any]) -> list[Any]:
        nonlocal called
        if called:
            return replay(given)
        called = True
        return plain(given)

    return run


def _after_graph(run: Boxed, manager: Callable[..., Any]) -> Boxed:
    """A backward pass without a graph: the trees must know that it runs."""

    def backward(given: list[Any]) -> list[Any]:
        tree = manager(torch.cuda.current_device(), create_if_none_exists=False)
        if tree is not None:
            tree.set_to_running_backward()
        return run(given)

    return backward


def _device(module: GraphModule) -> torch.device | None:
    """The one device of all tensors of a graph, or None."""
    values = (n.meta.get("val") for n in module.graph.nodes)
    found = {v.device for v in values if isinstance(v, torch.Tensor)}
    return found.pop() if len(found) == 1 else None


def _changed(module: GraphModule) -> list[int]:
    """The places of inputs that a graph writes to."""
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    targets = {n.args[0] for n in module.graph.nodes if n.target is torch.ops.aten.copy_.default}
    return [i for i, n in enumerate(inputs) if n in targets]
