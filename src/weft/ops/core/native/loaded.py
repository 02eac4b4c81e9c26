"""The C++ code, where it may be used on a device and is compiled."""

from __future__ import annotations

from typing import Any

import torch

from weft.device import driver
from weft.device.gpu import native_launch
from weft.ops.core.native import build, launches

ON_CPU = False
"""True: calls on the simulated GPU use the C++ code as well, as tests do."""
_CONFIGURED: list[Any] = []


def module(device: torch.device) -> Any:
    """The C++ code; None where it cannot be used, or not yet."""
    if not _is_usable(device):
        return None
    if device.type != "cuda":
        return build.started().module
    compiled = build.asked()
    if compiled is None or compiled.module is None or capturing():
        return None
    if not _CONFIGURED:
        launches.configure(compiled.module)
        _CONFIGURED.append(compiled.module)
    return compiled.module


def never(device: torch.device) -> bool:
    """True if it cannot be used on this device, now and later."""
    compiled = build.started() if build.started.cache_info().currsize else None
    return not _is_usable(device) or (compiled is not None and bool(compiled.failure))


def _is_usable(device: torch.device) -> bool:
    if device.type != "cuda":
        return ON_CPU
    # With several GPUs, launches look at the current context first, in Python.
    return driver.count() == 1 and hasattr(torch.Tensor, native_launch.EXCHANGE)


def capturing() -> bool:
    """True if launches go into a graph, which must not have those of a trace as well."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
