"""Matrix products by NumPy's BLAS: what all of these libraries spend their time in."""

from __future__ import annotations

import numpy as np

from weft.frontends.program.libraries.arrays import Array

_EXACT_IN_FLOAT = 1 << 24
"""Integers up to this size are exact in float32."""
_LARGEST_PRODUCT = 1 << 14
"""The largest product of two int8."""


def product(x: Array, y: Array, out: Array | None = None) -> Array:
    """The product of two matrices or of two stacks of them, in `out` where there is one.

    NumPy has no BLAS for integers, and wraps sums of int8: they are multiplied as floats that hold
    every sum exactly.
    """
    if x.dtype.kind != "i":
        return np.matmul(x, y, out=out)
    exact = x.shape[-1] * _LARGEST_PRODUCT <= _EXACT_IN_FLOAT
    wide = np.float32 if exact and x.dtype == np.int8 else np.float64
    # A sum past 32 bits wraps as on a GPU; a float straight to int32 depends on the CPU.
    result: Array = (x.astype(wide) @ y.astype(wide)).astype(np.int64).astype(np.int32)
    return result
