"""The choice of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from weft.errors import ArgumentError


@dataclass(frozen=True)
class Sampling:
    """The choice of the next token, by `weft.ops.sample`.

    temperature  0: the most probable token
    top_k        the most probable tokens to draw from; 0: all
    top_p        the most probable tokens whose probabilities add up to it; 1: all
    seed         tokens are a function of it and of their position

    >>> print(weft.llm.Sampling(temperature=0.8, top_k=40))
    Sampling(temperature=0.8, top_k=40, top_p=1.0, seed=0)
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "temperature": (0.0 <= self.temperature < float("inf"), "a number of at least 0"),
            "top_k": (0 <= self.top_k < 2**31, "0 to 2**31 - 1"),
            "top_p": (0.0 <= self.top_p <= 1.0, "0 to 1"),
            "seed": (0 <= self.seed < 2**62, "0 to 2**62 - 1"),
        }
        for name, (fits, allowed) in limits.items():
            if not fits:
                raise ArgumentError(
                    f"weft.llm.Sampling: {name} is out of range",
                    got=str(getattr(self, name)),
                    allowed=allowed,
                )


class Settings:
    """The settings of each row, in tensors of the device, which a CUDA graph reads."""

    def __init__(self, rows: int, device: torch.device) -> None:
        def numbers(dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(rows, dtype=dtype, device=device)

        self.tensors = (
            numbers(torch.float32),
            numbers(torch.int32),
            numbers(torch.float32),
            numbers(torch.int64),
        )

    def set(self, rows: Sequence[Sampling]) -> None:
        """Set the first rows; others are greedy."""
        count = len(self.tensors[0]) - len(rows)
        padded = [*rows, *[Sampling()] * count]
        fields = ("temperature", "top_k", "top_p", "seed")
        for name, tensor in zip(fields, self.tensors, strict=True):
            tensor.copy_(torch.tensor([getattr(s, name) for s in padded], dtype=tensor.dtype))
