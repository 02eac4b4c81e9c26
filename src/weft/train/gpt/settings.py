"""The settings of a GPT's training, and the size of its network."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

from weft.distributed.parallel.buckets import MEGABYTES
from weft.errors import ArgumentError
from weft.networks import gpt2

PRECISIONS = ("fp32", "bf16")
FREE = ("precision", "graph", "accumulate", "bucket")
"""Settings that a training may change when it goes on from a checkpoint."""
HEAD = 64
"""Elements of a head, where the width has several heads of this size."""
SIZE = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True)
class TextSettings:
    """The settings of a training.

    size        a size of GPT-2, or layers x width: 6x384
    length      tokens of a window
    batch       windows of a step, of all processes together
    accumulate  parts of a process's batch that are computed one after the other
    bucket      megabytes of gradients that processes send together
    rate        the largest learning rate; it rises during `warm_up` steps and falls as a cosine
    clip        the largest norm of all gradients
    precision   fp32; or bf16: PyTorch's autocast, with weights in fp32
    graph       True if the step is captured as a CUDA graph
    """

    size: str = "6x384"
    length: int = 256
    batch: int = 32
    accumulate: int = 1
    bucket: float = MEGABYTES
    steps: int = 1000
    rate: float = 1e-3
    warm_up: int = 20
    decay: float = 0.1
    clip: float = 1.0
    seed: int = 0
    precision: str = "bf16"
    graph: bool = True

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            allowed = ", ".join(PRECISIONS)
            raise ArgumentError("there is no such precision", got=self.precision, allowed=allowed)
        if self.accumulate < 1:
            raise ArgumentError(
                "a step has at least one part",
                got=f"accumulate {self.accumulate}",
                allowed="1, 2, …",
            )
        for name in ("rate", "clip", "bucket"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                allowed = "a positive number"
                raise ArgumentError(f"the {name} must be positive", got=str(value), allowed=allowed)

    def config(self, vocabulary: int) -> gpt2.Gpt2Config:
        """The sizes of the network."""
        named = gpt2.SIZES.get(self.size)
        if named is not None:
            sizes = {"vocabulary": vocabulary, "length": self.length}
            return gpt2.Gpt2Config(**{**asdict(named), **sizes})
        match = SIZE.fullmatch(self.size)
        depth, width = map(int, match.groups()) if match else (0, 0)
        if not depth or not width or width % _head(width):
            raise ArgumentError(
                "there is no such size of a GPT",
                got=self.size,
                allowed=f"{', '.join(gpt2.SIZES)}, or layers x width: 6x384",
                next="the width must be a multiple of 8",
            )
        return gpt2.Gpt2Config(width, depth, width // _head(width), vocabulary, self.length)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        if step < self.warm_up:
            return self.rate * (step + 1) / (self.warm_up + 1)
        rest = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return self.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, rest))))

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a checkpoint must have to go on."""
        return {k: v for k, v in asdict(self).items() if k not in FREE}


def _head(width: int) -> int:
    """Elements of a head: 64, or a part of a width that is no multiple of it."""
    return HEAD if width % HEAD == 0 else math.gcd(width, 32) if width % 8 == 0 else width + 1
