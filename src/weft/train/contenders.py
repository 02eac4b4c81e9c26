"""The same training by weft and by PyTorch: equal weights, batches and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from weft import nn, optim
from weft.ops.core.target import target
from weft.train.fused.kernels import fits
from weft.train.fused.step import FusedStep
from weft.train.network import Own, network
from weft.train.parallel import TrainingGroup
from weft.train.settings import Settings
from weft.train.step import Parts, TrainingStep
from weft.train.synchronised import Synchronised

Make = Callable[[Settings, torch.device], TrainingStep]
"""Makes the step of a contender."""


def _rate(settings: Settings, device: torch.device) -> Any:
    """The learning rate; on a GPU in its memory, so that a captured step can be given another."""
    return torch.tensor(settings.rate, device=device) if device.type == "cuda" else settings.rate


def weft_parts(settings: Settings, device: torch.device, model: Own | None = None) -> Parts:
    """The network, its loss and its optimiser on weft's kernels alone."""
    model = (model or Own(network(seed=settings.seed))).to(device)
    rate = _rate(settings, device)
    update = optim.SGD(model.parameters(), rate, momentum=settings.momentum)
    return Parts("weft", model, nn.CrossEntropyLoss(), update)


def torch_parts(settings: Settings, device: torch.device) -> Parts:
    """The same on PyTorch's kernels."""
    model = network(seed=settings.seed).to(device)
    rate, fused = _rate(settings, device), device.type == "cuda"
    update = torch.optim.SGD(model.parameters(), rate, momentum=settings.momentum, fused=fused)
    return Parts("PyTorch", model, torch.nn.CrossEntropyLoss(), update)


def weft_step(settings: Settings, device: torch.device) -> TrainingStep:
    """The step as a few kernels that are made for the network, or as ops where they do not fit."""
    parts = weft_parts(settings, device)
    if not fits(parts.model.layers, settings.precision, target(device)):
        return TrainingStep(parts, settings.batch, device, settings.graph)
    return FusedStep(parts, settings.batch, device, settings.graph, settings.precision)


def parallel_step(settings: Settings, device: torch.device, group: TrainingGroup) -> TrainingStep:
    """The step of one process of a group; the gradients are averaged by PyTorch's DDP.

    It is not captured as a graph.
    """
    parts = weft_parts(settings, device, Synchronised(network(seed=settings.seed), group))
    if group.communicates:
        devices = [device.index] if device.type == "cuda" else None
        parts.model = DistributedDataParallel(parts.model, devices)
    return TrainingStep(parts, settings.batch, device, graph=False)


def _eager(settings: Settings, device: torch.device) -> TrainingStep:
    return TrainingStep(torch_parts(settings, device), settings.batch, device, graph=False)


def _compiled(name: str, mode: str | None) -> Make:
    def make(settings: Settings, device: torch.device) -> TrainingStep:
        parts = torch_parts(settings, device)
        parts.name = name
        loss, model = parts.loss, parts.model
        together: Any = torch.compile(lambda x, t: loss(model(x), t), mode=mode, dynamic=False)
        parts.forward = together  # type: ignore[method-assign]
        return TrainingStep(parts, settings.batch, device, graph=False)

    return make


def _graphed(settings: Settings, device: torch.device) -> TrainingStep:
    parts = torch_parts(settings, device)
    parts.name = "PyTorch, CUDA graph"
    return TrainingStep(parts, settings.batch, device, graph=True)


PEERS: dict[str, Make] = {
    "PyTorch": _eager,
    "PyTorch, torch.compile": _compiled("PyTorch, torch.compile", None),
    "PyTorch, reduce-overhead": _compiled("PyTorch, reduce-overhead", "reduce-overhead"),
    "PyTorch, CUDA graph": _graphed,
}
"""PyTorch's ways to run the step."""


def peers(device: torch.device) -> dict[str, Make]:
    """The peers that run on a device: on a CPU there is nothing that a graph could save."""
    return PEERS if device.type == "cuda" else {"PyTorch": _eager}
