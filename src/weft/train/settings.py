"""How to train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from weft.errors import ArgumentError

PRECISIONS = ("fp32", "tf32")


@dataclass(frozen=True)
class Settings:
    """How to train.

    batch      images of a step; in a training of several processes, of each process
    steps      at the most; 0: all of the epochs
    host       True if the images stay in host memory
    graph      True if the step is captured as a CUDA graph
    precision  of products: fp32, or tf32 on tensor cores
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

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ArgumentError(
                "there is no such precision", got=self.precision, allowed=", ".join(PRECISIONS)
            )


@contextmanager
def of_torch(precision: str) -> Iterator[None]:
    """PyTorch computes products in this precision inside, with the fastest of cuDNN's kernels."""
    matmul, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.benchmark
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    cudnn.allow_tf32, cudnn.benchmark = precision == "tf32", True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        cudnn.allow_tf32, cudnn.benchmark = before
