"""Batches of MNIST on a device, gathered by a kernel from its memory or from host memory."""

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


class Images:
    """All images, in the device's memory or in host memory; a kernel gathers a batch from there.

    Page-locked host memory has an address on the GPU, so the kernel reads the rows of a batch over
    the bus. The host neither gathers nor copies: both would take longer than a small step.
    """

    def __init__(self, digits: Digits, device: torch.device, on_host: bool = False) -> None:
        place = _page_locked if on_host and device.type == "cuda" else torch.Tensor.to
        self.images, self.labels = (
            place(torch.from_numpy(a.copy()), device) for a in (digits.images, digits.labels)
        )
        self.device = device

    def batches(self, chosen: np.ndarray[Any, Any], batch: int) -> Iterator[Fill]:
        """One function for each whole batch of the chosen images."""
        numbers = torch.from_numpy(chosen).to(self.device)
        for start in range(0, len(chosen) - batch + 1, batch):
            part = numbers[start : start + batch]
            yield functools.partial(_launch, self.images, self.labels, part)


class _OnGpu:
    """A page-locked tensor of bytes as a GPU sees it; it keeps the memory alive."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape), "typestr": "|u1", "strides": None,
            "data": (tensor.data_ptr(), False), "version": 3,
        }  # fmt: skip


def _page_locked(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the device whose bytes are in host memory."""
    return torch.as_tensor(_OnGpu(tensor.pin_memory()), device=device)
