"""The settings of a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from weft.errors import ArgumentError

PRECISIONS = ("fp32", "tf32")
SCHEDULES = ("linear", "constant")
PIECES = 32
"""The number of learning rates of a linear schedule, which changes between steps only."""


@dataclass(frozen=True)
class Settings:
    """The settings of a training.

    batch      images of a step; in a training of several processes, of each process
    steps      at the most; 0: all of the epochs
    host       True if the images stay in host memory
    graph      True if the step is captured as a CUDA graph
    precision  of products: fp32, or tf32 on tensor cores
    schedule   of the learning rate: linear falls to 0 over all epochs
    """

    epochs: int = 1
    batch: int = 64
    rate: float = 0.05
    momentum: float = 0.9
    seed: int = 0
    steps: int = 0
    host: bool = True
    graph: bool = True
    precision: str = "fp32"
    schedule: str = "linear"

    def __post_init__(self) -> None:
        for name, allowed in (("precision", PRECISIONS), ("schedule", SCHEDULES)):
            if (word := getattr(self, name)) not in allowed:
                raise ArgumentError(
                    f"there is no such {name}", got=word, allowed=", ".join(allowed)
                )

    def rate_at(self, step: int, per_epoch: int) -> float:
        """The learning rate of a step; it does not depend on the limit of steps."""
        if self.schedule == "constant":
            return self.rate
        whole = max(1, per_epoch * self.epochs)
        return self.rate * (1 - min(PIECES, step * PIECES // whole) / PIECES)


@contextmanager
def of_torch(precision: str) -> Iterator[None]:
    """Make PyTorch compute products in this precision inside, with cuDNN's fastest kernels."""
    matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.benchmark
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    cudnn.allow_tf32, cudnn.benchmark = precision == "tf32", True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        cudnn.allow_tf32, cudnn.benchmark = before
