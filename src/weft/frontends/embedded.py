"""Starts CUDA's runtime in this Python process, when a library that weft has built is loaded.

Such a library is an extension module or what `weft nvcc -shared` writes. It calls `start` before
its own constructors run (program/start/start.cpp).
"""

from __future__ import annotations

import sys

_gpu = "sim"


def use(device: str) -> None:
    """Choose the GPU to simulate, before the first library is loaded."""
    global _gpu
    _gpu = device


def device() -> str:
    """Return the GPU that this process simulates, e.g. "sim:h200"."""
    return _gpu


def start(parts: str) -> None:
    """Load parts of the runtime library; kernels may access tensors, if torch is there."""
    from weft.frontends.program import process  # compilers and the simulator: only when needed

    process.start(_gpu, parts.split())
    if "torch" in sys.modules:
        from weft.frontends.extension import tensors

        tensors.report()
