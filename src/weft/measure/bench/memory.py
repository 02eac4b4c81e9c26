"""Measures the GPU memory that a call allocates, by the counters of PyTorch's allocator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def peak(call: Callable[[], Any]) -> int | None:
    """The most bytes that are allocated during a call, beyond those before it.

    It includes the results. None if PyTorch is not in use: other allocations are not counted.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)
