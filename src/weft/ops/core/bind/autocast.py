"""Conversion of an op's inputs by `torch.autocast`."""

from __future__ import annotations

from typing import Any

import torch

LOWER = "lower"
"""Convert to the dtype that torch.autocast was given, as PyTorch does for its products."""


def register(op: Any, to: torch.dtype | str) -> None:
    """Convert the floating-point inputs of a custom op to a dtype, or to LOWER."""
    for device in ("cpu", "cuda"):
        if isinstance(to, torch.dtype):
            op.register_autocast(device, to)
        else:
            _register_lower(op, device)


def _register_lower(op: Any, device: str) -> None:
    """As `register_autocast`, which takes a dtype that is known when the op is registered."""
    key = f"Autocast{device.upper()}"
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def kernel(_: Any, *args: Any) -> Any:
        dtype = torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op._opoverload(*(_lowered(a, device, dtype) for a in args))

    op._lib.impl(op._name, kernel, key, with_keyset=True)


def _lowered(value: Any, device: str, dtype: torch.dtype) -> Any:
    fits = isinstance(value, torch.Tensor) and value.is_floating_point()
    if fits and value.device.type == device and value.dtype is not torch.float64:
        return value.to(dtype)
    return value
