"""One training step: forward, backward, update. On a GPU it is captured as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

WARM_UP = 3
"""Steps before a graph is captured: compilation and allocation happen there."""


@dataclass
class Parts:
    """The parts of a step; weft's and PyTorch's have the same form.

    forward    (pixels, classes) -> loss
    optimiser  updates the parameters and clears their gradients
    """

    name: str
    model: torch.nn.Module
    loss: Callable[..., Any]
    optimiser: torch.optim.Optimizer

    def forward(self, pixels: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.loss(self.model(pixels), classes)
        return loss


class TrainingStep:
    """A step over fixed memory: `pixels` and `classes` are written, `loss` is read.

    graphed  True if the step is captured as a CUDA graph
    stages   name -> call: the parts of the step, in order; `eager` is all of them
    """

    def __init__(self, parts: Parts, batch: int, device: torch.device, graph: bool) -> None:
        self.parts = parts
        self.pixels, self.classes = self._buffers(batch, device)
        self.loss = torch.zeros((), device=device)
        # The gradient of the loss; given, because PyTorch's would be one more kernel.
        self._one = torch.ones((), device=device)
        self._differentiable = self.loss
        self.graphed, self._done = graph and device.type == "cuda", 0
        self._graph: Any = None

    def _buffers(self, batch: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The memory of a batch: the network's input, and what the loss compares."""
        pixels = torch.zeros(batch, 1, 28, 28, device=device)
        return pixels, torch.zeros(batch, dtype=torch.int64, device=device)

    @property
    def stages(self) -> dict[str, Callable[[], None]]:
        return {"forward": self._forward, "backward": self._backward, "update": self._update}

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the steps that follow."""
        for group in self.parts.optimiser.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)  # a captured step reads it from there
            else:
                group["lr"] = rate

    def _forward(self) -> None:
        self._differentiable = self.parts.forward(self.pixels, self.classes)
        self.loss = self._differentiable.detach()

    def _backward(self) -> None:
        self._differentiable.backward(self._one)
        self._differentiable = self.loss  # frees what the backward pass has used

    def _update(self) -> None:
        self.parts.optimiser.step()
        self.parts.optimiser.zero_grad(set_to_none=True)

    def check_range(self) -> None:
        """Warn if the step cannot represent the parameters."""

    def eager(self) -> None:
        """The step as separate launches."""
        for run in self.stages.values():
            run()

    def __call__(self) -> None:
        """The step on what `pixels` and `classes` hold."""
        if self._graph is not None:
            self._graph.replay()
        elif self.graphed and self._done >= WARM_UP:
            self._capture()
        else:
            self.eager()
        self._done += 1

    def _capture(self) -> None:
        """Record the step and run it once."""
        graph = torch.cuda.CUDAGraph()
        # Recording changes nothing: the state is that of the steps before.
        with torch.cuda.graph(graph):
            self.eager()
        self._graph = graph
        graph.replay()
