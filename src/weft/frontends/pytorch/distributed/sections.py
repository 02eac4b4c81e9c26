"""The memory of tensors as bytes, which Gloo moves whatever their dtype and strides are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def flat(tensor: Any) -> Any:
    """The bytes of a tensor in the order of its elements; a copy if they are not in that order."""
    return tensor.data.contiguous().view(-1).view(torch.uint8)


def split(tensor: Any, sizes: Sequence[int], count: int) -> list[Any]:
    """Parts of a tensor along its first dimension: of these sizes, or `count` equal ones."""
    if sizes:
        return list(tensor.data.split(list(sizes)))
    rows = len(tensor)
    if rows % count:
        raise ValueError(
            f"all_to_all_single divides the first dimension, of {rows}, by {count} ranks: pass "
            "input_split_sizes and output_split_sizes"
        )
    return list(tensor.data.split(rows // count)) if rows else [tensor.data] * count


class Sections:
    """A context with the bytes of tensors, to be written; its end writes those of copies back."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tensors
        self._parts: list[Any] = []

    def __enter__(self) -> list[Any]:
        self._parts = [flat(tensor) for tensor in self._tensors]
        return self._parts

    def __exit__(self, kind: Any, *_: Any) -> None:
        for tensor, part in zip(self._tensors, self._parts, strict=True):
            if kind is None and not tensor.is_contiguous():
                tensor.data.copy_(part.view(tensor.dtype).view(tensor.shape))
