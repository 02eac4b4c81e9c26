"""One training step of a GPT: forward, backward, update. On a GPU it is a CUDA graph."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from weft.train.gpt.settings import TextSettings
from weft.train.step import Parts, TrainingStep


class TextStep(TrainingStep):
    """A step over windows of tokens.

    clips  True: PyTorch limits the norm of gradients; weft's optimiser does so itself
    """

    def __init__(
        self, parts: Parts, settings: TextSettings, device: torch.device, graph: bool, clips: bool
    ) -> None:
        self._settings, self._clips = settings, clips
        super().__init__(parts, settings.batch, device, graph)

    def _buffers(self, batch: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        shape = batch, self._settings.length
        tokens, targets = (torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2))
        return tokens, targets

    def _forward(self) -> None:
        with autocast(self._settings.precision, self.pixels.device):
            super()._forward()

    def _update(self) -> None:
        if self._clips:
            parameters = self.parts.model.parameters()
            torch.nn.utils.clip_grad_norm_(parameters, self._settings.clip)
        super()._update()


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The context of a forward pass in a precision."""
    if precision == "fp32":
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(device.type, torch.bfloat16)
    return context
