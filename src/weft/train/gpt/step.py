"""One training step of a GPT: forward, backward, update. On a GPU it is a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from weft.distributed.parallel.buckets import GradientBuckets
from weft.train.gpt.settings import TextSettings
from weft.train.parallel import TrainingGroup
from weft.train.step import Parts, TrainingStep


class TextStep(TrainingStep):
    """A step over windows of tokens.

    clips  True: PyTorch limits the norm of gradients; weft's optimiser does so itself
    group  the processes of which this one has a part of the batch

    With `accumulate` in the settings, that part is computed in several, whose gradients add up.
    """

    def __init__(
        self, parts: Parts, settings: TextSettings, device: torch.device, graph: bool, clips: bool,
        group: TrainingGroup = TrainingGroup(),  # noqa: B008  a frozen value
    ) -> None:  # fmt: skip
        self._settings, self._clips = settings, clips
        super().__init__(parts, group.part(settings.batch, settings.accumulate), device, graph)
        self._whole = self.pixels, self.classes
        # The mean over all parts of all processes is the sum of gradients that are scaled so.
        self._one /= settings.accumulate * group.world
        self._buckets: GradientBuckets | None = None
        if group.communicates:
            self._buckets = GradientBuckets(parts.model.parameters(), megabytes=settings.bucket)
            self._buckets.broadcast()

    def _buffers(self, batch: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        shape = batch, self._settings.length
        tokens, targets = (torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2))
        return tokens, targets

    @property
    def stages(self) -> dict[str, Callable[[], None]]:
        if self._settings.accumulate == 1:
            return super().stages
        return {"forward and backward": self._passes, "update": self._update}

    def _passes(self) -> None:
        """Both passes over each part of the batch; gradients are sent during the last one."""
        count = self._settings.accumulate
        every = list(zip(*(whole.chunk(count) for whole in self._whole), strict=True))
        losses = []
        for number, (self.pixels, self.classes) in enumerate(every, 1):
            self._forward()
            self._backward(last=number == count)
            losses.append(self.loss)
        self.pixels, self.classes = self._whole
        self.loss = torch.stack(losses).mean()

    def _backward(self, last: bool = True) -> None:
        if self._buckets is None or not last:
            super()._backward()
            return
        with self._buckets.reducing():
            super()._backward()

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
