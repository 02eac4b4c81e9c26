"""A model as `torch.compile(model, backend="weft")` runs it: graphs, their kernels, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FUSED, OP, TORCH = "fused", "op", "torch"
"""The kinds of steps: a kernel that weft writes, an op of weft, an operation of PyTorch."""


@dataclass(frozen=True)
class ExplainedStep:
    """One step of a compiled graph.

    kind     fused, op or torch
    name     the op, or the operations of the kernel
    layer    the module that it belongs to; empty where the graph does not say
    bytes    of the tensors that it reads and makes
    flops    of products, convolutions and attention; of other steps, one per result or 0
    seconds  its least time on the GPU: bytes at the rate of DRAM, or FLOPs at that of their unit
    limit    which of the two: DRAM, fp32, tensor.bf16, …
    why      the reason why PyTorch computes it
    """

    kind: str
    name: str
    layer: str
    bytes: int
    flops: float
    seconds: float
    limit: str
    why: str = ""


@dataclass(frozen=True)
class NotFused:
    """Two neighbours that are not one kernel: the second step reads a result of the first.

    why    the reason, as it was decided
    count  how many such neighbours the graph has
    """

    first: str
    second: str
    why: str
    count: int = 1


@dataclass(frozen=True)
class ExplainedGraph:
    """A compiled graph.

    kind      forward, backward or inference
    apart     neighbours that are not one kernel, in the order of the graph
    left      functions that were left to PyTorch, with the reason
    replaced  how many calls of each function became an op of weft
    """

    kind: str
    steps: tuple[ExplainedStep, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, int] = field(default_factory=dict)
    apart: tuple[NotFused, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)

    def count(self, kind: str) -> int:
        """The number of steps of a kind."""
        return sum(step.kind == kind for step in self.steps)


@dataclass(frozen=True)
class ModelExplanation:
    """The graphs of a model in the order in which they were compiled; printed as tables."""

    model: str
    gpu: str
    graphs: tuple[ExplainedGraph, ...]

    @property
    def seconds(self) -> float:
        """The least time of all steps."""
        return sum(graph.seconds for graph in self.graphs)

    @property
    def fused(self) -> tuple[ExplainedStep, ...]:
        """The kernels that weft writes."""
        return tuple(s for graph in self.graphs for s in graph.steps if s.kind == FUSED)

    @property
    def left(self) -> dict[str, str]:
        """The operations that PyTorch computes, with the reason."""
        found = {s.name: s.why for graph in self.graphs for s in graph.steps if s.kind == TORCH}
        for graph in self.graphs:
            found |= graph.left
        return found

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**asdict(self), "seconds": self.seconds}
