"""`import weft.cupy as cp`: CuPy on the simulated GPU. NumPy computes its functions of arrays.

>>> import weft.cupy as cp
>>> add = cp.RawKernel(r'''
... extern "C" __global__ void add(const float* x, const float* y, float* z) {
...     int i = blockDim.x * blockIdx.x + threadIdx.x;
...     z[i] = x[i] + y[i];
... }''', "add")
>>> x = cp.arange(4, dtype=cp.float32)
>>> z = cp.zeros(4, dtype=cp.float32)
>>> add((1,), (4,), (x, x, z))
>>> print(z.get())
[0. 2. 4. 6.]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from weft.frontends.cupy import cuda, random
from weft.frontends.cupy.arrays import asnumpy, flatiter, ndarray, ufunc
from weft.frontends.cupy.cuda import is_available
from weft.frontends.cupy.dlpack import from_dlpack
from weft.frontends.cupy.elementwise import ElementwiseKernel
from weft.frontends.cupy.extras import clear_memo, fuse, memoize, show_config
from weft.frontends.cupy.host_objects import HostObject
from weft.frontends.cupy.memory import get_default_memory_pool
from weft.frontends.cupy.modules import HostModule, lookup
from weft.frontends.cupy.names import ALIASES, NUMPY_ONLY, fft, testing
from weft.frontends.cupy.pinned import get_default_pinned_memory_pool
from weft.frontends.cupy.raw import RawKernel, RawModule
from weft.frontends.cupy.reduction import ReductionKernel

__all__ = [
    "ElementwiseKernel", "RawKernel", "RawModule", "ReductionKernel", "asnumpy", "clear_memo",
    "cuda", "fft", "flatiter", "from_dlpack", "fuse", "get_array_module",
    "get_default_memory_pool", "get_default_pinned_memory_pool", "is_available", "linalg",
    "memoize", "ndarray", "random", "show_config", "testing", "ufunc",
]  # fmt: skip

__version__ = "14.0.0"
__path__: list[str] = []  # its modules can be imported
linalg = HostModule("cupy.linalg", "numpy.linalg")
fromDlpack = from_dlpack


def get_array_module(*args: Any) -> Any:
    """Return this module if an argument is an array of the device, else NumPy."""
    return sys.modules[__name__] if any(isinstance(a, HostObject) for a in args) else np


def __getattr__(name: str) -> Any:
    """Return what NumPy has under a name, for arrays of the device."""
    found = lookup(np, ALIASES.get(name, name), "cupy", NUMPY_ONLY)
    globals()[name] = found
    return found
