"""NumPy arrays of the program's memory, in the types of NVIDIA's libraries."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

REAL_16F, REAL_32F, REAL_64F, REAL_16BF = 2, 0, 1, 14
INT_8, INT_32 = 3, 10
COMPLEX_32F, COMPLEX_64F = 4, 5
DTYPES: dict[int, type[np.generic]] = {
    REAL_16F: np.float16, REAL_32F: np.float32, REAL_64F: np.float64, REAL_16BF: np.uint16,
    INT_8: np.int8, INT_32: np.int32, COMPLEX_32F: np.complex64, COMPLEX_64F: np.complex128,
}  # fmt: skip
"""cudaDataType_t -> storage type of its elements."""

Array = NDArray[Any]


def view(address: int | None, kind: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Elements of a cudaDataType_t at an address; `steps` are strides in elements."""
    return memory(address, np.dtype(DTYPES[kind]), shape, steps)


def memory(
    address: int | None, dtype: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]
) -> Array:
    """Elements at an address; `steps` are strides in elements."""
    if 0 in shape:
        return np.empty(shape, dtype)
    span = sum((n - 1) * abs(step) for n, step in zip(shape, steps, strict=True)) + 1
    flat = np.ctypeslib.as_array(
        (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(address or 0)
    )
    strides = tuple(step * dtype.itemsize for step in steps)
    first = sum((n - 1) * -step for n, step in zip(shape, steps, strict=True) if step < 0)
    return np.ndarray(shape, dtype, flat.data, first * dtype.itemsize, strides)


def matrix(address: int | None, kind: int, rows: int, columns: int, ld: int) -> Array:
    return view(address, kind, (rows, columns), (1, ld))


def vector(address: int | None, kind: int, n: int, step: int) -> Array:
    return view(address, kind, (n,), (step,))


def values(stored: Array, kind: int) -> Array:
    """Values for the computation: float16 and bfloat16 become float32."""
    if kind == REAL_16BF:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if kind == REAL_16F else stored


def store(to: Array, kind: int, values: Array) -> None:
    if kind == REAL_16BF:
        bits = np.asarray(values, np.float32).view(np.uint32)
        # Round to nearest even.
        rounded = (bits >> 16) & 1
        rounded += bits
        rounded += 0x7FFF
        to[...] = rounded >> 16
        if (nans := np.isnan(values)).any():
            to[nans] = 0x7FC0
    elif kind in (INT_8, INT_32):
        to[...] = values
    else:
        to[...] = values.astype(to.dtype)


def scalar(address: int | None, kind: int) -> Any:
    return values(vector(address, kind, 1, 1), kind)[0] if address else 0


def transposed(stored: Array, transpose: int) -> Array:
    return stored.T if transpose else stored
