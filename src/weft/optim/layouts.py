"""Layouts of tensors, compared in every step: the comparison must be fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.device.gpu.guard import guard, never

_TYPES = (torch.Tensor, torch.nn.Parameter)


class Layouts:
    """The types, dtypes, devices, shapes and strides of tensors; None for one that is missing."""

    def __init__(self, tensors: Sequence[Any]):
        self._arrays: list[object] = []
        self._native: Callable[..., int] = never
        if all(
            t is None or (type(t) in _TYPES and t.is_cuda and t.layout is torch.strided)
            for t in tensors
        ):
            # Machine code that reads all of it in some 20 ns for each tensor.
            self._native = guard(tensors, _TYPES, self._arrays)
        self._seen = [_layout(t) for t in tensors] if self._native is never else []

    def fit(self, tensors: Sequence[Any]) -> bool:
        """True if as many tensors have the same layouts."""
        if self._native is not never:
            return bool(self._native(*tensors))
        return self._seen == [_layout(t) for t in tensors]


def _layout(tensor: Any) -> Any:
    if tensor is None or tensor.layout is not torch.strided:
        return tensor if tensor is None else tensor.layout
    return tensor.dtype, tensor.device, tensor.shape, tensor.stride()
