"""Batches of MNIST on a device: from its memory, or copied from the host while a step runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.kernels import Kernel, cdiv, cuda
from weft.train.data import Digits
from weft.train.network import DEVIATION, MEAN

PIXELS = 28 * 28
SCALE, SHIFT = 1 / (255 * DEVIATION), MEAN / DEVIATION
Fill = Callable[[torch.Tensor, torch.Tensor], None]
"""Writes a batch: (pixels, classes)."""


@functools.cache
def _kernel() -> Kernel:
    return cuda(Path(__file__).with_name("batch.cu")).kernel("batch")


def _launch(images: Any, labels: Any, chosen: Any, pixels: torch.Tensor, classes: Any) -> None:
    count = len(classes)
    blocks = cdiv(count * PIXELS // 4, 256)
    _kernel()[blocks, 256](images, labels, chosen, pixels, classes, count, PIXELS, SCALE, SHIFT)


def order(count: int, epoch: int, seed: int) -> np.ndarray[Any, Any]:
    """The order of the images in an epoch."""
    return np.random.default_rng([seed, epoch]).permutation(count).astype(np.int32)


class OnDevice:
    """All images are in the device's memory; a kernel gathers a batch."""

    def __init__(self, digits: Digits, device: torch.device) -> None:
        self.images, self.labels = (
            torch.from_numpy(a.copy()).to(device) for a in (digits.images, digits.labels)
        )
        self.device = device

    def batches(self, chosen: np.ndarray[Any, Any], batch: int) -> Iterator[Fill]:
        """One function for each whole batch of the chosen images."""
        numbers = torch.from_numpy(chosen).to(self.device)
        for start in range(0, len(chosen) - batch + 1, batch):
            part = numbers[start : start + batch]
            yield functools.partial(_launch, self.images, self.labels, part)


class OnHost:
    """All images are in host memory. While a step runs, the next batch is gathered and copied."""

    def __init__(self, digits: Digits, device: torch.device, batch: int) -> None:
        self.digits, self.device = digits, device
        fast = device.type == "cuda"
        shapes = ((batch, PIXELS), (batch,))
        self.staged = [
            [torch.empty(s, dtype=torch.uint8, pin_memory=fast) for s in shapes] for _ in range(2)
        ]
        self.there = [[torch.empty_like(t, device=device) for t in pair] for pair in self.staged]
        self.stream: Any = torch.cuda.Stream(device) if fast else None
        self.copied: list[Any] = [torch.cuda.Event() if fast else None for _ in range(2)]
        self.used: list[Any] = [torch.cuda.Event() if fast else None for _ in range(2)]

    def batches(self, chosen: np.ndarray[Any, Any], batch: int) -> Iterator[Fill]:
        """One function for each whole batch; the next one is copied before it is called."""
        starts = range(0, len(chosen) - batch + 1, batch)
        for number, start in enumerate(starts):
            if number == 0:
                self._copy(0, chosen[start : start + batch])
            if start + 2 * batch <= len(chosen):
                self._copy((number + 1) % 2, chosen[start + batch : start + 2 * batch])
            yield functools.partial(self._fill, number % 2)

    def _copy(self, side: int, chosen: np.ndarray[Any, Any]) -> None:
        images, labels = self.staged[side]
        if self.stream is None:
            self._gather(side, chosen)
            for to, staged in zip(self.there[side], self.staged[side], strict=True):
                to.copy_(staged)
            return
        self.copied[side].synchronize()  # the copy before has read the staged batch
        self._gather(side, chosen)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[side])
            for to, staged in zip(self.there[side], (images, labels), strict=True):
                to.copy_(staged, non_blocking=True)
            self.copied[side].record(self.stream)

    def _gather(self, side: int, chosen: np.ndarray[Any, Any]) -> None:
        images, labels = self.staged[side]
        flat = self.digits.images.reshape(-1, PIXELS)
        np.take(flat, chosen, axis=0, out=images.numpy(), mode="clip")
        np.take(self.digits.labels, chosen, out=labels.numpy(), mode="clip")

    def _fill(self, side: int, pixels: torch.Tensor, classes: torch.Tensor) -> None:
        if self.stream is not None:
            torch.cuda.current_stream(self.device).wait_event(self.copied[side])
        images, labels = self.there[side]
        _launch(images, labels, None, pixels, classes)
        if self.stream is not None:
            self.used[side].record()
