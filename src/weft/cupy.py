"""`import weft.cupy as cp`: CuPy's kernel classes on the simulated GPU, and NumPy as its arrays.

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

from typing import Any

from weft.frontends.cupy import device as cuda
from weft.frontends.cupy.arrays import asnumpy, ndarray, of_numpy
from weft.frontends.cupy.elementwise import ElementwiseKernel
from weft.frontends.cupy.raw import RawKernel, RawModule
from weft.frontends.cupy.reduction import ReductionKernel

__all__ = [
    "ElementwiseKernel", "RawKernel", "RawModule", "ReductionKernel", "asnumpy", "cuda", "ndarray",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """All other names are NumPy's."""
    return of_numpy(name)
