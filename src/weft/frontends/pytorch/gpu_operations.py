"""The dispatch mode that marks every operation of torch on a real GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from weft.frontends.pytorch import costs, memory, operations


class GpuOperations(operations.Operations):
    """Runs operations as they are, each inside of a mark with its number."""

    def __init__(self, mark: Callable[[], AbstractContextManager[int]]) -> None:
        super().__init__(_OnGpu())
        self._mark = mark

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with self._mark() as number:
            out = func(*args, **kwargs)
        self.number = number
        return out

    def is_there(self, args: Sequence[Any], out: Any) -> bool:
        return any(t.is_cuda for t in costs.tensors((args, out)))


class _OnGpu(memory.Tracker):
    """Counts the memory of CUDA tensors only."""

    def add(self, tensor: torch.Tensor) -> None:
        if tensor.is_cuda:
            super().add(tensor)
