"""Calls of NVIDIA's libraries, computed with NumPy on the program's memory.

    blas.py      cuBLAS
    products.py  matrix products, for all of these
    matmul.py    cuBLASLt
    factors.py   batched LU factors of cuBLAS
    fft.py       cuFFT
    solver.py    cuSOLVER
    sparse.py    cuSPARSE
    dnn.py       cuDNN; dnn_layers.py, dnn_tensors.py
    tensor_maps.py  tensor maps of the driver API

A module has `OPERATIONS`: name -> function of the numbers that the runtime library passes. Names of
cuDNN begin with `dnn.`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

INTERNAL_ERROR = 14
"""The status of a call that raises: that of cuBLAS, and an error in every library."""


@functools.cache
def _operations() -> dict[str, Callable[[Sequence[int]], int]]:
    """All operations but cuDNN's; most programs call none."""
    from weft.frontends.program.libraries import (
        blas,
        factors,
        fft,
        matmul,
        solver,
        sparse,
        tensor_maps,
    )

    parts = (blas, matmul, factors, fft, solver, sparse, tensor_maps)
    tables = (each.OPERATIONS for each in parts)
    return {name: operation for table in tables for name, operation in table.items()}


def compute(name: str, numbers: Sequence[int]) -> int:
    """Execute one call; return the status of its library."""
    with np.errstate(all="ignore"):  # a GPU computes infinities and NaNs without a word
        library, _, operation = name.rpartition(".")
        if not library:
            return _operations()[name](numbers)
        from weft.frontends.program.libraries import dnn

        return dnn.compute(operation, numbers)
