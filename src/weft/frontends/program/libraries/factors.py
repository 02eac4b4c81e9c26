"""Triangular systems and batched LU factors of cuBLAS: trsm, getrfBatched and its like."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from weft.frontends.program.libraries.arrays import INT_32, Array, matrix, scalar, vector

_CONJUGATE = 2


def _addresses(table: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(table)) if count else []


def _getrf(numbers: Sequence[int]) -> int:
    kind, n, table, lda, pivots, info, batch = numbers
    for i, address in enumerate(_addresses(table, batch)):
        a = matrix(address, kind, n, n, lda)
        rows = vector(pivots + 4 * n * i, INT_32, n, 1) if pivots else None
        vector(info + 4 * i, INT_32, 1, 1)[0] = factor(a, rows)
    return 0


def factor(a: Array, pivots: Array | None) -> int:
    """Factor in place; return the first zero of the diagonal, counted from 1, or 0."""
    singular = 0
    for k in range(min(a.shape)):
        row = k + int(np.argmax(np.abs(a[k:, k]))) if pivots is not None else k
        if pivots is not None:
            pivots[k] = row + 1  # as in LAPACK
        if a[row, k] == 0:
            singular = singular or k + 1
            continue
        if row != k:
            a[[k, row]] = a[[row, k]]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return singular


def solve(a: Array, pivots: Array | None, b: Array, transpose: int) -> None:
    """Solve in place with factors."""
    lower, upper = np.tril(a, -1) + np.eye(len(a), dtype=a.dtype), np.triu(a)
    order = np.arange(len(a))
    for k, row in enumerate(pivots if pivots is not None else ()):
        order[[k, row - 1]] = order[[row - 1, k]]
    if transpose:
        if transpose == _CONJUGATE:
            lower, upper = lower.conj(), upper.conj()
        x = np.linalg.solve(lower.T, np.linalg.solve(upper.T, b))
        b[order] = x
    else:
        b[...] = np.linalg.solve(upper, np.linalg.solve(lower, b[order]))


def _getrs(numbers: Sequence[int]) -> int:
    kind, transpose, n, columns, table, lda, pivots, right, ldb, info, batch = numbers
    for i, (a, b) in enumerate(
        zip(_addresses(table, batch), _addresses(right, batch), strict=True)
    ):
        rows = vector(pivots + 4 * n * i, INT_32, n, 1) if pivots else None
        solve(matrix(a, kind, n, n, lda), rows, matrix(b, kind, n, columns, ldb), transpose)
    ctypes.c_int32.from_address(info).value = 0  # of the host
    return 0


def _getri(numbers: Sequence[int]) -> int:
    kind, n, table, lda, pivots, results, ldc, info, batch = numbers
    for i, (a, c) in enumerate(
        zip(_addresses(table, batch), _addresses(results, batch), strict=True)
    ):
        rows = vector(pivots + 4 * n * i, INT_32, n, 1) if pivots else None
        factors, out = matrix(a, kind, n, n, lda), matrix(c, kind, n, n, ldc)
        zeros = np.flatnonzero(np.diag(factors) == 0)
        vector(info + 4 * i, INT_32, 1, 1)[0] = zeros[0] + 1 if len(zeros) else 0
        if not len(zeros):
            out[...] = np.eye(n, dtype=out.dtype)
            solve(factors, rows, out, 0)
    return 0


def _trsm(numbers: Sequence[int]) -> int:
    """A triangular system with several right sides, in place."""
    kind, right, upper, transpose, unit, m, n, alpha, a_at, lda, b_at, ldb = numbers
    size = n if right else m
    a, b = matrix(a_at, kind, size, size, lda), matrix(b_at, kind, m, n, ldb)
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        np.fill_diagonal(triangle, 1)
    triangle = triangle.T if transpose else triangle
    scaled = scalar(alpha, kind) * b
    b[...] = np.linalg.solve(triangle.T, scaled.T).T if right else np.linalg.solve(triangle, scaled)
    return 0


OPERATIONS = {"getrf": _getrf, "getrs": _getrs, "getri": _getri, "trsm": _trsm}
