"""Limits of the random kernels, and their modelled seconds.

All kernels are limited by memory: the times are traffic and launches (`core.target.Target`).
"""

from __future__ import annotations

from weft.ops.core.plan import Layout
from weft.ops.core.target import Target

RANKED = 4096
"""The longest permutation that is made by ranking keys, which every block keeps: 32 KiB."""
DROPOUT_VECTORS = 2
"""Vectors of 16 bytes that a thread of dropout has in flight."""
MISALIGNED = 2
"""Time of dropout relative to aligned tensors; fitted by hand on an H200."""


def fill_time(x: Layout, gpu: Target) -> float:
    """Seconds to write a tensor once."""
    return gpu.launch + x.numel * x.itemsize / gpu.bandwidth


def dropout_time(x: Layout, gpu: Target) -> float:
    """Seconds to read and to write a tensor."""
    slow = 1 if x.aligned == 16 else MISALIGNED
    return gpu.launch + 2 * x.numel * x.itemsize / gpu.bandwidth * slow
