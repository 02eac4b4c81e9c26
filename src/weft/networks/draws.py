"""Random inputs of networks: a seed gives the same tensors on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


class Draws:
    """A stream of random tensors in host memory; every call continues it."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def integers(self, most: int, *shape: int) -> torch.Tensor:
        """Draw integers below `most`."""
        return torch.from_numpy(self._random.integers(most, size=shape))

    def normal(self, *shape: int) -> torch.Tensor:
        """Draw from the normal distribution."""
        return torch.from_numpy(self._random.standard_normal(shape, dtype=np.float32))

    def chosen(self, share: float, *shape: int) -> torch.Tensor:
        """Draw flags, of which about `share` are True; the first one always is."""
        flags: Any = self._random.random(shape) < share
        flags.flat[0] = True
        return torch.from_numpy(flags)


def next_tokens(draws: Draws, vocabulary: int, shape: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Tokens, and those that follow each of them."""
    count, length = shape
    tokens = draws.integers(vocabulary, count, length + 1)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
