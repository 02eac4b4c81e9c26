"""Implements cuBLAS calls with NumPy, on views of the program's memory.

Half and bfloat16 products are summed in float32, as on tensor cores; the last bits may differ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.frontends.program.libraries.arrays import (
    DTYPES,
    INT_32,
    Array,
    matrix,
    scalar,
    store,
    transposed,
    values,
    vector,
    view,
)
from weft.frontends.program.libraries.products import product

NOT_SUPPORTED = 15
_CONJUGATE = 2


class BlasCall(NamedTuple):
    """The numbers of a call; `libraries/cublas.cpp` has the same."""

    type_a: int
    type_b: int
    type_c: int
    type_scale: int
    transpose_a: int = 0
    transpose_b: int = 0
    by_pointers: int = 0
    m: int = 0
    n: int = 0
    k: int = 0
    alpha: int = 0
    beta: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    lda: int = 0
    ldb: int = 0
    ldc: int = 0
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    batch: int = 1


# ---- matrices -----------------------------------------------------------------------------------
def _gemm(call: BlasCall) -> None:
    """Products of a batch. A column-major matrix is a transposed one of rows: C' = B' A'."""
    for i in range(call.batch if call.by_pointers else 1):
        a, b, c = _operands(call, i)
        left = (call.k, call.m) if call.transpose_a else (call.m, call.k)
        right = (call.n, call.k) if call.transpose_b else (call.k, call.n)
        x = values(_rows(call, a, call.type_a, left, call.lda, call.stride_a), call.type_a)
        y = values(_rows(call, b, call.type_b, right, call.ldb, call.stride_b), call.type_b)
        out = _rows(call, c, call.type_c, (call.m, call.n), call.ldc, call.stride_c)
        _multiply(
            call,
            _transposed_stack(y, call.transpose_b),
            _transposed_stack(x, call.transpose_a),
            out,
        )


def _rows(call: BlasCall, at: int, kind: int, shape: tuple[int, int], ld: int, step: int) -> Array:
    """The transposed matrices of a batch; one matrix where an array of pointers has them."""
    rows, columns = shape
    return view(at, kind, (1 if call.by_pointers else call.batch, columns, rows), (step, ld, 1))


def _transposed_stack(stack: Array, transpose: int) -> Array:
    if not transpose:
        return stack
    out = stack.swapaxes(1, 2)
    return out.conj() if transpose == _CONJUGATE and out.dtype.kind == "c" else out


def _multiply(call: BlasCall, y: Array, x: Array, out: Array) -> None:
    alpha, beta = scalar(call.alpha, call.type_scale), scalar(call.beta, call.type_scale)
    if alpha == 1 and not beta and x.dtype == y.dtype == out.dtype and out.dtype.kind in "fc":
        product(y, x, out)
        return
    result = product(y, x)
    if alpha != 1:
        result = alpha * result
    # With beta = 0, cuBLAS does not read C, which may hold NaN.
    store(out, call.type_c, result + beta * values(out, call.type_c) if beta else result)


def _operands(call: BlasCall, i: int) -> tuple[int, int, int]:
    """The addresses of the i-th product of a batch."""
    operands = ((call.a, call.stride_a, call.type_a), (call.b, call.stride_b, call.type_b),
             (call.c, call.stride_c, call.type_c))  # fmt: skip
    if call.by_pointers:
        a, b, c = (ctypes.c_uint64.from_address(base + 8 * i).value for base, _, _ in operands)
    else:
        a, b, c = (
            base + i * stride * np.dtype(DTYPES[kind]).itemsize for base, stride, kind in operands
        )
    return a, b, c


def _gemv(call: BlasCall) -> None:
    a = transposed(matrix(call.a, call.type_a, call.m, call.n, call.lda), call.transpose_a)
    x = vector(call.b, call.type_b, a.shape[1], call.ldb)
    y = vector(call.c, call.type_c, a.shape[0], call.ldc)
    alpha, beta = scalar(call.alpha, call.type_scale), scalar(call.beta, call.type_scale)
    y[...] = alpha * (a @ x) + (beta * y if beta else 0)


def _ger(call: BlasCall) -> None:
    x = vector(call.a, call.type_a, call.m, call.lda)
    y = vector(call.b, call.type_b, call.n, call.ldb)
    a = matrix(call.c, call.type_c, call.m, call.n, call.ldc)
    a += scalar(call.alpha, call.type_scale) * np.outer(x, y)


def _geam(call: BlasCall) -> None:
    shape = (call.m, call.n)
    out = matrix(call.c, call.type_c, *shape, call.ldc)
    total = np.zeros(shape, out.dtype)
    for base, kind, ld, turn, factor in (
        (call.a, call.type_a, call.lda, call.transpose_a, call.alpha),
        (call.b, call.type_b, call.ldb, call.transpose_b, call.beta),
    ):
        if scale := scalar(factor, call.type_scale):
            rows, columns = shape[::-1] if turn else shape
            total += scale * transposed(matrix(base, kind, rows, columns, ld), turn)
    out[...] = total


# ---- vectors ------------------------------------------------------------------------------------
def _both(call: BlasCall) -> tuple[Array, Array]:
    x = vector(call.a, call.type_a, call.n, call.lda)
    return x, vector(call.b, call.type_b, call.n, call.ldb)


def _axpy(call: BlasCall) -> None:
    x, y = _both(call)
    y += scalar(call.alpha, call.type_scale) * x


def _scal(call: BlasCall) -> None:
    x, _ = _both(call)
    x *= scalar(call.alpha, call.type_scale)


def _copy(call: BlasCall) -> None:
    x, y = _both(call)
    y[...] = x


def _swap(call: BlasCall) -> None:
    x, y = _both(call)
    x[...], y[...] = y.copy(), x.copy()


def _reduces(to: Callable[[Array, Array], Any]) -> Callable[[BlasCall], None]:
    """An operation whose result is one number of the vectors' type."""

    def run(call: BlasCall) -> None:
        vector(call.c, call.type_c, 1, 1)[0] = to(*_both(call))

    return run


def _finds(where: Callable[[Array], Any]) -> Callable[[BlasCall], None]:
    """An operation whose result is an index, counted from 1; 0 for an empty vector."""

    def run(call: BlasCall) -> None:
        x, _ = _both(call)
        vector(call.c, INT_32, 1, 1)[0] = where(np.abs(x)) + 1 if x.size else 0

    return run


def _operation(run: Callable[[BlasCall], None]) -> Callable[[Sequence[int]], int]:
    """Make an operation of numbers; it returns a cublasStatus_t."""

    def operation(numbers: Sequence[int]) -> int:
        call = BlasCall(*numbers)
        if any(kind not in DTYPES for kind in call[:4]):
            return NOT_SUPPORTED
        run(call)
        return 0

    return operation


OPERATIONS = {
    f"blas_{name}": _operation(run)
    for name, run in {
        "gemm": _gemm, "gemv": _gemv, "ger": _ger, "geam": _geam,
        "axpy": _axpy, "scal": _scal, "copy": _copy, "swap": _swap,
        "dot": _reduces(lambda x, y: x @ y),
        "nrm2": _reduces(lambda x, _: np.linalg.norm(x)),
        "asum": _reduces(lambda x, _: np.abs(x).sum()),
        "amax": _finds(np.argmax), "amin": _finds(np.argmin),
    }.items()
}  # fmt: skip
