"""Perturb the operations of PyTorch in float64 as rounding to another dtype would."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import draw


class Rounded(TorchDispatchMode):  # type: ignore[misc]
    """Change each result of float64, forward and backward, by at most the unit roundoff of a dtype.

    The changes are drawn. What they do to the result of a program is a sample of the error that it
    has in this dtype, whatever the order of its sums is.
    """

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        super().__init__()
        self.roundoff = torch.finfo(dtype).eps / 2
        self.draws = draw.seeded(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if any(r.alias_info is not None for r in func._schema.returns):
            return made  # a view, or a tensor that is changed in place
        return tree_map(self.rounded, made)

    def rounded(self, x: Any) -> Any:
        """A tensor of float64 whose elements are changed; anything else as it is."""
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.float64:
            return x
        change = self.draws.uniform(*x.shape, dtype=torch.float64) * 2 - 1
        return x * (1 + self.roundoff * change)
