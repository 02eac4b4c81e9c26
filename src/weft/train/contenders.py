"""The same training by weft and by PyTorch: equal weights, batches and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft import nn, optim
from weft.train.loop import Settings
from weft.train.network import Own, network
from weft.train.step import Parts


def own_parts(settings: Settings, device: torch.device) -> Parts:
    """The training on weft's kernels alone."""
    model = Own(network(seed=settings.seed)).to(device)
    update = optim.SGD(model.parameters(), settings.rate, momentum=settings.momentum)
    return Parts("weft", model, nn.CrossEntropyLoss(), update)


def _eager(settings: Settings, device: torch.device) -> Parts:
    model = network(seed=settings.seed).to(device)
    update = torch.optim.SGD(
        model.parameters(), settings.rate, momentum=settings.momentum, fused=device.type == "cuda"
    )
    return Parts("PyTorch", model, torch.nn.CrossEntropyLoss(), update)


def _compiled(name: str, mode: str | None) -> Callable[[Settings, torch.device], Parts]:
    def make(settings: Settings, device: torch.device) -> Parts:
        parts = _eager(settings, device)
        parts.name = name
        loss, model = parts.loss, parts.model
        together: Any = torch.compile(lambda x, t: loss(model(x), t), mode=mode, dynamic=False)
        parts.forward = together  # type: ignore[method-assign]
        return parts

    return make


def _graphed(settings: Settings, device: torch.device) -> Parts:
    parts = _eager(settings, device)
    parts.name = "PyTorch, CUDA graph"
    return parts


PEERS = {
    "PyTorch": (_eager, False),
    "PyTorch, torch.compile": (_compiled("PyTorch, torch.compile", None), False),
    "PyTorch, reduce-overhead": (_compiled("PyTorch, reduce-overhead", "reduce-overhead"), False),
    "PyTorch, CUDA graph": (_graphed, True),
}
"""Name -> what makes the parts, and whether the step is captured as a graph."""


def peers(device: torch.device) -> list[str]:
    """The peers that run on a device."""
    return list(PEERS) if device.type == "cuda" else ["PyTorch"]
