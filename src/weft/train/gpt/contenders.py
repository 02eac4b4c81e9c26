"""The same GPT by weft and by PyTorch: equal weights, windows and updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft import nn, optim
from weft.networks import gpt2
from weft.ops.core import library
from weft.train.gpt.settings import TextSettings
from weft.train.gpt.step import TextStep
from weft.train.parallel import TrainingGroup
from weft.train.step import Parts

Make = Callable[[TextSettings, int, torch.device], TextStep]
"""Makes the step of a contender: settings, size of the vocabulary, device."""
BETAS = (0.9, 0.95)


class OwnAttention(gpt2.Attention):
    """The attention of a GPT on weft's kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=2)
        )
        y = library.call("attention")(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def network(settings: TextSettings, vocabulary: int, device: torch.device) -> gpt2.Gpt2:
    """The network with PyTorch's layers; equal seeds give equal weights."""
    with torch.random.fork_rng([]):
        torch.manual_seed(settings.seed)
        made = gpt2.Gpt2(settings.config(vocabulary))
    made.to(device)
    return made


def own(model: gpt2.Gpt2) -> gpt2.Gpt2:
    """Make a network compute with weft's kernels; parameters and their names stay."""
    nn.convert(model)
    for layer in model.modules():
        if type(layer) is gpt2.Attention:
            layer.__class__ = OwnAttention
    return model


def own_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the next tokens on weft's kernel."""
    loss: torch.Tensor = library.call("cross_entropy")(logits.flatten(0, 1), target.flatten())
    return loss


def weft_step(
    settings: TextSettings,
    vocabulary: int,
    device: torch.device,
    group: TrainingGroup = TrainingGroup(),  # noqa: B008  a frozen value
) -> TextStep:
    """The step on weft's kernels; gradients are limited inside of the update.

    That of one of several processes is not captured as a graph.
    """
    model = own(network(settings, vocabulary, device))
    update = optim.AdamW(
        _groups(model, settings), _rate(settings, device), BETAS, max_grad_norm=settings.clip
    )
    parts = Parts("weft", model, own_loss, update)
    graph = settings.graph and group.world == 1
    return TextStep(parts, settings, device, graph, clips=False, group=group)


def _torch_step(name: str, graph: bool = False, compiled: bool = False) -> Make:
    def make(settings: TextSettings, vocabulary: int, device: torch.device) -> TextStep:
        model = network(settings, vocabulary, device)
        fused = device.type == "cuda"
        update = torch.optim.AdamW(
            _groups(model, settings), _rate(settings, device), BETAS, fused=fused, capturable=fused
        )
        parts = Parts(name, model, gpt2.loss, update)
        if compiled:
            together: Any = torch.compile(lambda x, t: gpt2.loss(model(x), t), dynamic=False)
            parts.forward = together  # type: ignore[method-assign]
        return TextStep(parts, settings, device, graph, clips=True)

    return make


PEERS = {
    "PyTorch": _torch_step("PyTorch"),
    "PyTorch, torch.compile": _torch_step("PyTorch, torch.compile", compiled=True),
    "PyTorch, CUDA graph": _torch_step("PyTorch, CUDA graph", graph=True),
}


def peers(device: torch.device) -> dict[str, Make]:
    """PyTorch's ways to run the step; on a CPU there is nothing that a graph could save."""
    return PEERS if device.type == "cuda" else {"PyTorch": PEERS["PyTorch"]}


def _rate(settings: TextSettings, device: torch.device) -> Any:
    """The learning rate; on a GPU in its memory, so that a captured step can be given another."""
    return torch.tensor(settings.rate, device=device) if device.type == "cuda" else settings.rate


def _groups(model: torch.nn.Module, settings: TextSettings) -> list[dict[str, Any]]:
    """Matrices decay; biases and the gains of norms do not."""
    every = list(model.parameters())
    return [
        {"params": [p for p in every if p.dim() > 1], "weight_decay": settings.decay},
        {"params": [p for p in every if p.dim() <= 1], "weight_decay": 0.0},
    ]
