"""cuSOLVER's dense factors, systems, eigenvalues and singular values, in LAPACK's layouts."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from weft.frontends.program.libraries.arrays import (
    COMPLEX_32F,
    COMPLEX_64F,
    INT_32,
    REAL_32F,
    REAL_64F,
    Array,
    matrix,
    vector,
)
from weft.frontends.program.libraries.factors import factor, solve

_SUCCESS, _INVALID_VALUE = 0, 3
_UPPER = 1
_RIGHT = 1
_REAL = {REAL_32F: REAL_32F, REAL_64F: REAL_64F, COMPLEX_32F: REAL_32F, COMPLEX_64F: REAL_64F}
"""The type of the eigenvalues and singular values of a matrix."""


def _set_info(info: int, value: int = 0) -> int:
    """Write the `info` of LAPACK: 0, or where a factor is singular."""
    ctypes.c_int32.from_address(info).value = value
    return _SUCCESS


def _getrf(numbers: Sequence[int]) -> int:
    kind, m, n, a, lda, pivots, info = numbers
    rows = vector(pivots, INT_32, min(m, n), 1) if pivots else None
    return _set_info(info, factor(matrix(a, kind, m, n, lda), rows))


def _getrs(numbers: Sequence[int]) -> int:
    kind, operation, n, columns, a, lda, pivots, b, ldb, info = numbers
    rows = vector(pivots, INT_32, n, 1) if pivots else None
    solve(matrix(a, kind, n, n, lda), rows, matrix(b, kind, n, columns, ldb), operation)
    return _set_info(info)


def _adjoint(a: Array) -> Array:
    return a.conj().T


def _triangle(a: Array, fill: int) -> Array:
    return np.triu(a) if fill == _UPPER else np.tril(a)


def _whole(a: Array, fill: int) -> Array:
    """The whole Hermitian matrix, of which one triangle is stored."""
    half = _triangle(a, fill)
    return half + _adjoint(half) - np.diag(np.diag(a).real)


def _put_triangle(a: Array, fill: int, result: Array) -> None:
    inside = np.triu_indices(len(a)) if fill == _UPPER else np.tril_indices(len(a))
    a[inside] = result[inside]


def _potrf(numbers: Sequence[int]) -> int:
    kind, fill, n, at, lda, info = numbers
    a = matrix(at, kind, n, n, lda)
    whole = _whole(a, fill)
    try:
        lower = np.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        return _set_info(info, _first_indefinite(whole))
    _put_triangle(a, fill, _adjoint(lower) if fill == _UPPER else lower)
    return _set_info(info)


def _first_indefinite(whole: Array) -> int:
    """The size of the first leading minor that is not positive definite."""
    for size in range(1, len(whole)):
        try:
            np.linalg.cholesky(whole[:size, :size])
        except np.linalg.LinAlgError:
            return size
    return len(whole)


def _lower(a: Array, fill: int) -> Array:
    half = _triangle(a, fill)
    return _adjoint(half) if fill == _UPPER else half


def _potrs(numbers: Sequence[int]) -> int:
    kind, fill, n, columns, a, lda, right, ldb, info = numbers
    lower, b = _lower(matrix(a, kind, n, n, lda), fill), matrix(right, kind, n, columns, ldb)
    b[...] = np.linalg.solve(_adjoint(lower), np.linalg.solve(lower, b))
    return _set_info(info)


def _potri(numbers: Sequence[int]) -> int:
    kind, fill, n, at, lda, info = numbers
    a = matrix(at, kind, n, n, lda)
    inverse = np.linalg.inv(_lower(a, fill))
    _put_triangle(a, fill, _adjoint(inverse) @ inverse)
    return _set_info(info)


def _geqrf(numbers: Sequence[int]) -> int:
    kind, m, n, at, lda, tau_at, info = numbers
    a, tau = matrix(at, kind, m, n, lda), vector(tau_at, kind, min(m, n), 1)
    for k in range(min(m, n)):
        x = a[k:, k]
        norm = np.linalg.norm(x)
        # A column that is zero below a real diagonal needs no reflection.
        if np.linalg.norm(x[1:]) == 0 and x[0].imag == 0:
            tau[k] = 0
            continue
        beta = -np.copysign(norm, x[0].real)
        tau[k] = (beta - x[0]) / beta
        v = np.concatenate([[1], x[1:] / (x[0] - beta)]).astype(a.dtype)
        a[k:, k + 1 :] -= tau[k].conj() * np.outer(v, v.conj() @ a[k:, k + 1 :])
        a[k, k], a[k + 1 :, k] = beta, v[1:]
    return _set_info(info)


def _orthogonal(a: Array, tau: Array, m: int) -> Array:
    """The square matrix Q of the reflections that `geqrf` leaves."""
    q = np.eye(m, dtype=a.dtype)
    for k in reversed(range(len(tau))):
        v = np.concatenate([np.zeros(k), [1], a[k + 1 :, k]]).astype(a.dtype)
        q -= tau[k] * np.outer(v, v.conj() @ q)
    return q


def _orgqr(numbers: Sequence[int]) -> int:
    kind, m, n, k, at, lda, tau, info = numbers
    a = matrix(at, kind, m, n, lda)
    a[...] = _orthogonal(a[:, :k].copy(), vector(tau, kind, k, 1), m)[:, :n]
    return _set_info(info)


def _ormqr(numbers: Sequence[int]) -> int:
    kind, side, operation, m, n, k, at, lda, tau, target, ldc, info = numbers
    size = n if side == _RIGHT else m
    q = _orthogonal(matrix(at, kind, size, k, lda), vector(tau, kind, k, 1), size)
    q = _adjoint(q) if operation else q
    c = matrix(target, kind, m, n, ldc)
    c[...] = c @ q if side == _RIGHT else q @ c
    return _set_info(info)


def _gesvd(numbers: Sequence[int]) -> int:
    kind, job_u, job_vt, m, n, at, lda, s_at, u_at, ldu, vt_at, ldvt, info = numbers
    if m < n:
        return _INVALID_VALUE  # as cuSOLVER
    a, jobs = matrix(at, kind, m, n, lda), (chr(job_u), chr(job_vt))
    u, s, vt = np.linalg.svd(a, full_matrices="A" in jobs)
    vector(s_at, _REAL[kind], n, 1)[...] = s
    columns = {"A": m, "S": n}.get(jobs[0], 0)
    if columns:
        matrix(u_at, kind, m, columns, ldu)[...] = u[:, :columns]
    if jobs[1] in "AS":
        matrix(vt_at, kind, n, n, ldvt)[...] = vt
    if jobs[0] == "O":
        a[...] = u[:, :n]
    elif jobs[1] == "O":
        a[:n] = vt
    return _set_info(info)


def _syevd(numbers: Sequence[int]) -> int:
    kind, mode, fill, n, at, lda, w, info = numbers
    a = matrix(at, kind, n, n, lda)
    found, vectors = np.linalg.eigh(_whole(a, fill))
    vector(w, _REAL[kind], n, 1)[...] = found
    if mode:
        a[...] = vectors
    return _set_info(info)


OPERATIONS = {
    "solver_getrf": _getrf, "solver_getrs": _getrs, "solver_potrf": _potrf,
    "solver_potrs": _potrs, "solver_potri": _potri, "solver_geqrf": _geqrf,
    "solver_orgqr": _orgqr, "solver_ormqr": _ormqr, "solver_gesvd": _gesvd,
    "solver_syevd": _syevd,
}  # fmt: skip
