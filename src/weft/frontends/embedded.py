"""Starts CUDA's runtime in this Python process, when a library that weft has built is loaded.

Such a library is an extension module or what `weft nvcc -shared` writes. It calls `start` before
its own constructors run (program/start/start.cpp).
"""

from __future__ import annotations

import sys

_gpu = "sim"
_gpus = 1


def use(device: str, gpus: int = 1) -> None:
    """Choose the GPU to simulate, and how many of it, before the first library is loaded."""
    global _gpu, _gpus
    _gpu, _gpus = device, gpus


def device() -> str:
    """Return the GPU that this process simulates, e.g. "sim:h200"."""
    return _gpu


def gpus() -> int:
    """Return the number of GPUs that this process simulates."""
    return _gpus


def start(parts: str) -> None:
    """Load parts of the runtime library; kernels may access tensors, if torch is there."""
    from weft.frontends.program import process  # compilers and the simulator: only when needed

    process.start(_gpu, parts.split(), _gpus)
    if "torch" in sys.modules:
        from weft.frontends.extension import tensors

        tensors.report()
