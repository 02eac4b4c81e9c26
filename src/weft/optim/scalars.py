"""Numbers of an optimiser: in the arguments of a launch, or in the memory of the device."""

from __future__ import annotations

import functools
from typing import Any

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""The dtypes of parameters and gradients."""


def number(value: Any, device: torch.device) -> tuple[float, torch.Tensor]:
    """A number as (number, tensor) whose product it is: a tensor on the device is not read."""
    if isinstance(value, torch.Tensor) and value.device == device:
        return 1.0, value.detach().to(torch.float32)
    return float(value), one(device)


@functools.cache
def one(device: torch.device) -> torch.Tensor:
    """The number 1 in the memory of a device."""
    return torch.ones((), device=device)


@functools.cache
def zero(device: torch.device) -> torch.Tensor:
    """The number 0 in the memory of a device."""
    return torch.zeros((), device=device)
