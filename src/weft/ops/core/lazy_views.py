"""Resolve negated and conjugated views before a plan runs.

Keys of plans do not distinguish such views, and checking in every call would cost time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft.ops.core.runner import Run


def resolving(run: Run, count: int, call: Callable[..., Any]) -> Run:
    """Wrap `run` to resolve views among its first `count` values.

    call  the op with other tensors, whose plan may be another one; gets all values
    """

    def resolved(*values: Any) -> Any:
        tensors, words = values[:count], values[count:]
        if not any(t is not None and (t.is_neg() or t.is_conj()) for t in tensors):
            return run(*values)
        plain = (None if t is None else t.resolve_conj().resolve_neg() for t in tensors)
        return call(*plain, *words)

    return resolved


def may_be_lazy(tensor: torch.Tensor) -> bool:
    """True if a tensor may be a conjugated view, or a negated one of a complex tensor's parts.

    The strides of the latter are all even.
    """
    steps = [s for size, s in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
    if not steps:  # one element
        return tensor.is_complex() or tensor.dim() == 0 or bool(tensor.stride()[-1] != 1)
    return tensor.is_complex() or all(step % 2 == 0 for step in steps)
