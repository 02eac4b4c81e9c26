"""Batches of MNIST on a device: from its memory, or copied from the host while a step runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.kernels import Kernel, cdiv, cuda
from weft.train.data import Digits
from weft.train.network import DEVIATION, MEAN

PIXELS = 28 * 28
COPIED = 2**20
"""Bytes of images that are copied from host memory at once, or one batch if that is more."""
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
    """All images are in host memory. While steps run, the next batches are gathered and copied.

    Several small batches are one copy: it would take longer to start it than to do it.
    """

    def __init__(self, digits: Digits, device: torch.device, batch: int) -> None:
        self.digits, self.device = digits, device
        fast = device.type == "cuda"
        self.together = max(1, COPIED // (batch * PIXELS)) * batch
        shapes = ((self.together, PIXELS), (self.together,))
        self.staged = [
            [torch.empty(s, dtype=torch.uint8, pin_memory=fast) for s in shapes] for _ in range(2)
        ]
        self.there = [[torch.empty_like(t, device=device) for t in pair] for pair in self.staged]
        # Made once: a step of a small batch takes little longer than a few slices of tensors.
        self.fills: list[list[Fill]] = [
            [
                functools.partial(_launch, images, labels, None)
                for images, labels in zip(*(t.split(batch) for t in pair), strict=True)
            ]
            for pair in self.there
        ]
        self.stream: Any = torch.cuda.Stream(device) if fast else None
        self.copied: list[Any] = [torch.cuda.Event() if fast else None for _ in range(2)]
        self.used: list[Any] = [torch.cuda.Event() if fast else None for _ in range(2)]
        self._thread = ThreadPoolExecutor(1, "weft-batches")
        self._gathered: Future[None] = self._thread.submit(lambda: None)

    def batches(self, chosen: np.ndarray[Any, Any], batch: int) -> Iterator[Fill]:
        """One function for each whole batch; the next ones are copied before it is called."""
        whole = chosen[: len(chosen) // batch * batch]
        copies = [whole[i : i + self.together] for i in range(0, len(whole), self.together)]
        self._gathered.result()  # of batches before that were not used to the end
        for side in range(2):
            self._release(side)
        for number, part in enumerate(copies):
            side = number % 2
            if number == 0:
                self._gather(side, part)
                self._copy(side, len(part))
                self._gather_ahead(copies, 1)
            if number + 1 < len(copies):
                self._gathered.result()
                self._copy(1 - side, len(copies[number + 1]))
                self._gather_ahead(copies, number + 2)
            if self.stream is not None:
                torch.cuda.current_stream(self.device).wait_event(self.copied[side])
            yield from self.fills[side][: len(part) // batch]
            self._release(side)

    def _release(self, side: int) -> None:
        """Copies wait for what was launched before this."""
        if self.stream is not None:
            self.used[side].record(torch.cuda.current_stream(self.device))

    def _gather_ahead(self, copies: list[np.ndarray[Any, Any]], number: int) -> None:
        """Gathers on another thread: rows of random images take as long as a step."""
        if number < len(copies):
            self._gathered = self._thread.submit(self._gather, number % 2, copies[number])

    def _gather(self, side: int, chosen: np.ndarray[Any, Any]) -> None:
        """Gathers images and labels where the copy before has been read."""
        if self.stream is not None:
            self.copied[side].synchronize()
        images, labels = (t[: len(chosen)].numpy() for t in self.staged[side])
        np.take(self.digits.images.reshape(-1, PIXELS), chosen, axis=0, out=images, mode="clip")
        np.take(self.digits.labels, chosen, out=labels, mode="clip")

    def _copy(self, side: int, count: int) -> None:
        """Starts to copy what was gathered."""
        if self.stream is None:
            self._start(side, count)
            return
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[side])
            self._start(side, count)
            self.copied[side].record(self.stream)

    def _start(self, side: int, count: int) -> None:
        for to, staged in zip(self.there[side], self.staged[side], strict=True):
            to[:count].copy_(staged[:count], non_blocking=True)
