"""Implements cuBLAS calls with NumPy, on views of the program's memory.

Half and bfloat16 products are summed in float32, as on tensor cores; the last bits may differ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.frontends.program.interface import BlasCall

INTERNAL_ERROR, NOT_SUPPORTED = 14, 15
_REAL_16F, _REAL_32F, _REAL_64F, _REAL_16BF = 2, 0, 1, 14
_INT_8, _INT_32 = 3, 10
_DTYPES: dict[int, type[np.generic]] = {
    _REAL_16F: np.float16, _REAL_32F: np.float32, _REAL_64F: np.float64, _REAL_16BF: np.uint16,
    _INT_8: np.int8, _INT_32: np.int32,
}  # fmt: skip
"""cudaDataType_t -> storage type of its elements."""

Array = NDArray[Any]


def compute(call: BlasCall) -> int:
    """Executes one call; returns a cublasStatus_t."""
    kinds = (call.type_a, call.type_b, call.type_c, call.type_scale)
    if any(kind not in _DTYPES for kind in kinds):
        return NOT_SUPPORTED
    _OPERATIONS[call.operation.decode()](call)
    return 0


# ---- memory -------------------------------------------------------------------------------------
def _view(address: int | None, kind: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Elements at an address; `steps` are strides in elements."""
    dtype = np.dtype(_DTYPES[kind])
    if 0 in shape:
        return np.empty(shape, dtype)
    span = sum((n - 1) * abs(step) for n, step in zip(shape, steps, strict=True)) + 1
    flat = np.ctypeslib.as_array(
        (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(address or 0)
    )
    strides = tuple(step * dtype.itemsize for step in steps)
    first = sum((n - 1) * -step for n, step in zip(shape, steps, strict=True) if step < 0)
    return np.ndarray(shape, dtype, flat.data, first * dtype.itemsize, strides)


def _matrix(address: int | None, kind: int, rows: int, columns: int, ld: int) -> Array:
    return _view(address, kind, (rows, columns), (1, ld))


def _vector(address: int | None, kind: int, n: int, step: int) -> Array:
    return _view(address, kind, (n,), (step,))


def _values(stored: Array, kind: int) -> Array:
    """Values for the computation: float16 and bfloat16 become float32."""
    if kind == _REAL_16BF:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if kind == _REAL_16F else stored


def _store(to: Array, kind: int, values: Array) -> None:
    if kind == _REAL_16BF:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        # Round to nearest even.
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        to[...] = np.where(np.isnan(values), 0x7FC0, rounded >> 16).astype(np.uint16)
    elif kind in (_INT_8, _INT_32):
        to[...] = values
    else:
        with np.errstate(over="ignore"):
            to[...] = values.astype(to.dtype)


def _scalar(address: int | None, kind: int) -> Any:
    return _values(_vector(address, kind, 1, 1), kind)[0] if address else 0


def _turned(stored: Array, transpose: int) -> Array:
    return stored.T if transpose else stored


# ---- matrices -----------------------------------------------------------------------------------
def _gemm(call: BlasCall) -> None:
    alpha, beta = _scalar(call.alpha, call.type_scale), _scalar(call.beta, call.type_scale)
    for i in range(call.batch):
        a, b, c = _operands(call, i)
        rows, columns = (call.k, call.m) if call.transpose_a else (call.m, call.k)
        left = _matrix(a, call.type_a, rows, columns, call.lda)
        rows, columns = (call.n, call.k) if call.transpose_b else (call.k, call.n)
        right = _matrix(b, call.type_b, rows, columns, call.ldb)
        out = _matrix(c, call.type_c, call.m, call.n, call.ldc)
        # NumPy would wrap int8 products at eight bits.
        whole = np.int32 if call.type_c == _INT_32 else None
        x = _turned(_values(left, call.type_a), call.transpose_a)
        y = _turned(_values(right, call.type_b), call.transpose_b)
        product = alpha * (x.astype(whole) @ y.astype(whole) if whole else x @ y)
        # With beta = 0, cuBLAS does not read C, which may hold NaN.
        _store(out, call.type_c, product + beta * _values(out, call.type_c) if beta else product)


def _operands(call: BlasCall, i: int) -> tuple[int | None, int | None, int | None]:
    """The addresses of the i-th product of a batch."""
    operands = ((call.a, call.stride_a, call.type_a), (call.b, call.stride_b, call.type_b),
             (call.c, call.stride_c, call.type_c))  # fmt: skip
    if call.by_pointers:
        a, b, c = (ctypes.c_uint64.from_address(base + 8 * i).value for base, _, _ in operands)
    else:
        a, b, c = (
            (base or 0) + i * stride * np.dtype(_DTYPES[kind]).itemsize
            for base, stride, kind in operands
        )
    return a, b, c


def _gemv(call: BlasCall) -> None:
    a = _turned(_matrix(call.a, call.type_a, call.m, call.n, call.lda), call.transpose_a)
    x = _vector(call.b, call.type_b, a.shape[1], call.ldb)
    y = _vector(call.c, call.type_c, a.shape[0], call.ldc)
    alpha, beta = _scalar(call.alpha, call.type_scale), _scalar(call.beta, call.type_scale)
    y[...] = alpha * (a @ x) + (beta * y if beta else 0)


def _ger(call: BlasCall) -> None:
    x = _vector(call.a, call.type_a, call.m, call.lda)
    y = _vector(call.b, call.type_b, call.n, call.ldb)
    a = _matrix(call.c, call.type_c, call.m, call.n, call.ldc)
    a += _scalar(call.alpha, call.type_scale) * np.outer(x, y)


def _geam(call: BlasCall) -> None:
    shape = (call.m, call.n)
    out = _matrix(call.c, call.type_c, *shape, call.ldc)
    total = np.zeros(shape, out.dtype)
    for base, kind, ld, turn, factor in (
        (call.a, call.type_a, call.lda, call.transpose_a, call.alpha),
        (call.b, call.type_b, call.ldb, call.transpose_b, call.beta),
    ):
        if scale := _scalar(factor, call.type_scale):
            rows, columns = shape[::-1] if turn else shape
            total += scale * _turned(_matrix(base, kind, rows, columns, ld), turn)
    out[...] = total


# ---- vectors ------------------------------------------------------------------------------------
def _both(call: BlasCall) -> tuple[Array, Array]:
    x = _vector(call.a, call.type_a, call.n, call.lda)
    return x, _vector(call.b, call.type_b, call.n, call.ldb)


def _axpy(call: BlasCall) -> None:
    x, y = _both(call)
    y += _scalar(call.alpha, call.type_scale) * x


def _scal(call: BlasCall) -> None:
    x, _ = _both(call)
    x *= _scalar(call.alpha, call.type_scale)


def _copy(call: BlasCall) -> None:
    x, y = _both(call)
    y[...] = x


def _swap(call: BlasCall) -> None:
    x, y = _both(call)
    x[...], y[...] = y.copy(), x.copy()


def _reduces(to: Callable[[Array, Array], Any]) -> Callable[[BlasCall], None]:
    """An operation whose result is one number of the vectors' type."""

    def run(call: BlasCall) -> None:
        _vector(call.c, call.type_c, 1, 1)[0] = to(*_both(call))

    return run


def _finds(where: Callable[[Array], Any]) -> Callable[[BlasCall], None]:
    """An operation whose result is an index, counted from 1; 0 for an empty vector."""

    def run(call: BlasCall) -> None:
        x, _ = _both(call)
        _vector(call.c, _INT_32, 1, 1)[0] = where(np.abs(x)) + 1 if x.size else 0

    return run


_OPERATIONS: dict[str, Callable[[BlasCall], None]] = {
    "gemm": _gemm, "gemv": _gemv, "ger": _ger, "geam": _geam,
    "axpy": _axpy, "scal": _scal, "copy": _copy, "swap": _swap,
    "dot": _reduces(lambda x, y: x @ y),
    "nrm2": _reduces(lambda x, _: np.linalg.norm(x)),
    "asum": _reduces(lambda x, _: np.abs(x).sum()),
    "amax": _finds(np.argmax), "amin": _finds(np.argmin),
}  # fmt: skip
