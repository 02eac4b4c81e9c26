"""A step of a contender over fixed memory: training or inference, called or in a CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from weft.networks.bench.contenders import Contender
from weft.networks.network import network
from weft.values.networks import NetworkCase

RATE = 1e-4
"""The learning rate: that of fine-tuning, at which losses fall and do not diverge."""
CHECKED = 2
"""Steps of a graph whose losses are compared with those of steps as called."""
WARM_UP = 3
"""Steps on the stream of a graph before it is captured."""


class NetworkStep:
    """A network with its batch and its optimiser; a call is one step.

    value  the loss of the last step; of inference, `judge` computes that of the last result
    """

    def __init__(self, case: NetworkCase, contender: Contender, device: torch.device) -> None:
        self.case, self.device = case, device
        dtype = torch.bfloat16 if case.dtype == "bf16" else torch.float32
        form = torch.channels_last if case.channels_last else torch.contiguous_format
        net = network(case.network, case.size, device=device)
        module = net.module.to(dtype=dtype, memory_format=form)
        self.module = contender.module(module).train(case.training)
        batch = net.batch(case.batch, case.length, device=device, dtype=dtype)
        self.inputs = tuple(
            t.contiguous(memory_format=form) if t.dim() == 4 else t for t in batch.inputs
        )
        self.target, self._net = batch.target, net
        self.value = torch.zeros((), device=device)
        self._output: Any = None
        self._optimiser: torch.optim.Optimizer | None = None
        self._step = self._training(contender) if case.training else self._inference(contender)
        self._graph: Any = None

    def __call__(self) -> None:
        """Make a step as a user calls it."""
        self._step()

    def judge(self) -> float:
        """The loss of the last step, as a number; it waits for the device."""
        if not self.case.training:
            target = self.target.float() if self.target.is_floating_point() else self.target
            with torch.no_grad():
                self.value = self._net.loss(self._output.float(), target)
        return float(self.value)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.case.dtype != "autocast":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def _training(self, contender: Contender) -> Callable[[], None]:
        module, net = self.module, self._net
        optimiser = self._optimiser = contender.optimiser(
            module, RATE, fused=self.device.type == "cuda"
        )

        def loss(target: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
            return net.loss(module(*inputs), target)

        forward = contender.compiled(loss)

        def step() -> None:
            with self._autocast():
                value = forward(self.target, *self.inputs)
            value.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            self.value.copy_(value.detach())

        return step

    def _inference(self, contender: Contender) -> Callable[[], None]:
        forward = contender.compiled(self.module)

        def step() -> None:
            with torch.no_grad(), self._autocast():
                self._output = forward(*self.inputs)

        return step

    # ---- graphs ------------------------------------------------------------------------------
    def capture(self) -> float:
        """Capture the step as a CUDA graph.

        Return the largest relative difference between the losses of the graph and those of steps
        as called, from the same state.
        """
        state = [(t, t.clone()) for t in self._state()]
        called = self._losses(self._step)
        self._capture()
        with torch.no_grad():
            for tensor, saved in state:
                tensor.copy_(saved)
        replayed = self._losses(self.replay)
        if not all(map(math.isfinite, replayed)):
            raise RuntimeError(f"the losses of the graph are {replayed}, as called {called}")
        return max(abs(a - b) / abs(a) for a, b in zip(called, replayed, strict=True))

    def _state(self) -> list[torch.Tensor]:
        """The tensors that a step changes: parameters, statistics and the optimiser's states."""
        if self._optimiser is None:
            return []
        states = (v for state in self._optimiser.state.values() for v in state.values())
        kept = [*self.module.parameters(), *self.module.buffers(), *states]
        return [t.detach() for t in kept if isinstance(t, torch.Tensor)]

    def _losses(self, step: Callable[[], None]) -> list[float]:
        losses = []
        for _ in range(CHECKED):
            step()
            losses.append(self.judge())
        return losses

    def _capture(self) -> None:
        """Capture the step after some steps on another stream."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph

    def replay(self) -> None:
        """Make the captured step."""
        self._graph.replay()
