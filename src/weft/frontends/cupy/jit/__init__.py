"""`cupyx.jit`: kernels in Python, translated to CUDA C++.

kernel.py      `rawkernel`: compiles for the types of its arguments, and launches
translate.py   a function to CUDA C++: statements; expressions.py: expressions
builtins.py    names that kernels use: threadIdx, syncthreads, atomic_add, ...
"""

from __future__ import annotations

from typing import Any

from weft.frontends.cupy.jit.builtins import NAMES
from weft.frontends.cupy.jit.kernel import rawkernel

__all__ = ["rawkernel"]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'cupyx.jit' has no attribute {name!r}", name=name)
    return NAMES[name]
