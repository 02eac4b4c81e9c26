"""cuSPARSE's generic interface: products, triangular systems and conversions.

Sums are in double precision and are rounded once, which the library does not promise.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.frontends.program.libraries.arrays import Array, memory, scalar, store, values, view

_SUCCESS = 0
_CSR, _CSC, _COO = 1, 2, 3
_INDICES: dict[int, type[np.generic]] = {1: np.uint16, 2: np.int32, 3: np.int64}
_BY_COLUMN = 1
_CONJUGATE = 2


@dataclass(frozen=True)
class _Sparse:
    """A sparse matrix as the program has described it."""

    format: int
    rows: int
    cols: int
    nnz: int
    first: int
    second: int
    at: int
    first_type: int
    second_type: int
    base: int
    kind: int
    upper: int
    unit: int

    def _indices(self, address: int, kind: int, count: int) -> Array:
        return memory(address, np.dtype(_INDICES[kind]), (count,), (1,))

    @property
    def major(self) -> int:
        """Rows of CSR, columns of CSC."""
        return self.cols if self.format == _CSC else self.rows

    def offsets(self) -> Array:
        """The offsets of the rows of CSR or of the columns of CSC."""
        return self._indices(self.first, self.first_type, self.major + 1)

    def inner(self) -> Array:
        """The columns of the elements; for CSC, their rows."""
        return self._indices(self.second, self.second_type, self.nnz)

    def outer(self) -> Array:
        """The rows of COO."""
        return self._indices(self.first, self.first_type, self.nnz)

    def places(self) -> tuple[Array, Array]:
        """Row and column of each element, from 0."""
        inner = self.inner().astype(np.int64) - self.base
        if self.format == _COO:
            return self.outer().astype(np.int64) - self.base, inner
        offsets = self.offsets().astype(np.int64)
        outer = np.repeat(np.arange(self.major), offsets[1:] - offsets[:-1])
        return (inner, outer) if self.format == _CSC else (outer, inner)

    def stored(self) -> Array:
        return view(self.at, self.kind, (self.nnz,), (1,))

    def numbers(self) -> Array:
        return values(self.stored(), self.kind)

    def dense(self) -> Array:
        out = np.zeros((self.rows, self.cols), np.result_type(self.numbers(), np.float64))
        np.add.at(out, self.places(), self.numbers())
        return out


@dataclass(frozen=True)
class _Dense:
    """A dense matrix, or a vector as a matrix of one column."""

    rows: int
    cols: int
    ld: int
    at: int
    kind: int
    order: int

    def stored(self) -> Array:
        steps = (1, self.ld) if self.order == _BY_COLUMN else (self.ld, 1)
        return view(self.at, self.kind, (self.rows, self.cols), steps)

    def numbers(self) -> Array:
        return values(self.stored(), self.kind)


def _sparse(rest: Iterator[int]) -> _Sparse:
    return _Sparse(*(next(rest) for _ in range(13)))


def _matrix(rest: Iterator[int]) -> _Dense:
    return _Dense(*(next(rest) for _ in range(6)))


def _vector(rest: Iterator[int]) -> _Dense:
    size, at, kind = (next(rest) for _ in range(3))
    return _Dense(size, 1, size, at, kind, _BY_COLUMN)


def _transposed(x: Array, operation: int) -> Array:
    transposed = x.T if operation else x
    return transposed.conj() if operation == _CONJUGATE else transposed


def _summed(a: _Sparse, operation: int, b: Array) -> Array:
    """The product with a dense matrix, in double precision."""
    rows, cols = a.places()
    weights = a.numbers()
    if operation:
        rows, cols = cols, rows
    if operation == _CONJUGATE:
        weights = weights.conj()
    out = np.zeros((a.cols if operation else a.rows, b.shape[1]), np.result_type(b, np.float64))
    for j in range(b.shape[1]):
        terms = weights * b[cols, j]
        parts = [terms.real, terms.imag] if np.iscomplexobj(terms) else [terms]
        sums = [np.bincount(rows, part, len(out)) for part in parts]
        out[:, j] = sums[0] if len(sums) == 1 else sums[0] + 1j * sums[1]
    return out


def _put(c: _Dense, product: Array, alpha: Any, beta: Any) -> int:
    old = c.numbers()
    result = alpha * product
    # With a beta of zero, the old values are not read: they may be NaNs.
    store(c.stored(), c.kind, result if beta == 0 else result + beta * old)
    return _SUCCESS


def _times_vector(numbers: Sequence[int]) -> int:
    rest = iter(numbers)
    operation, kind, alpha, beta = (next(rest) for _ in range(4))
    a, x, y = _sparse(rest), _vector(rest), _vector(rest)
    product = _summed(a, operation, x.numbers())
    return _put(y, product, scalar(alpha, kind), scalar(beta, kind))


def _times_matrix(numbers: Sequence[int]) -> int:
    rest = iter(numbers)
    op_a, op_b, kind, alpha, beta = (next(rest) for _ in range(5))
    a, b, c = _sparse(rest), _matrix(rest), _matrix(rest)
    product = _summed(a, op_a, _transposed(b.numbers(), op_b))
    return _put(c, product, scalar(alpha, kind), scalar(beta, kind))


def _sampled(numbers: Sequence[int]) -> int:
    """Elements of a dense product where a sparse matrix has some."""
    rest = iter(numbers)
    op_a, op_b, kind, alpha, beta = (next(rest) for _ in range(5))
    a, b, c = _matrix(rest), _matrix(rest), _sparse(rest)
    left, right = _transposed(a.numbers(), op_a), _transposed(b.numbers(), op_b)
    rows, cols = c.places()
    products = np.einsum("ik,ki->i", left[rows], right[:, cols])
    old = scalar(beta, kind) * c.numbers() if scalar(beta, kind) != 0 else 0
    store(c.stored(), c.kind, scalar(alpha, kind) * products + old)
    return _SUCCESS


def _solve(numbers: Sequence[int]) -> int:
    rest = iter(numbers)
    operation, kind, alpha = (next(rest) for _ in range(3))
    a, x, y = _sparse(rest), _vector(rest), _vector(rest)
    whole = a.dense()
    triangle = np.triu(whole) if a.upper else np.tril(whole)
    if a.unit:
        np.fill_diagonal(triangle, 1)
    solution = np.linalg.solve(_transposed(triangle, operation), scalar(alpha, kind) * x.numbers())
    store(y.stored(), y.kind, solution)
    return _SUCCESS


def _to_dense(numbers: Sequence[int]) -> int:
    rest = iter(numbers)
    a, b = _sparse(rest), _matrix(rest)
    store(b.stored(), b.kind, a.dense())
    return _SUCCESS


def _count(numbers: Sequence[int]) -> int:
    """Count the elements of a dense matrix that are not zero, and write the offsets."""
    rest = iter(numbers)
    a = _matrix(rest)
    nnz = next(rest)
    b, present = _sparse(rest), a.numbers() != 0
    ctypes.c_int64.from_address(nnz).value = int(present.sum())
    if b.format != _COO:
        counts = present.sum(axis=0 if b.format == _CSC else 1)
        b.offsets()[...] = b.base + np.concatenate([[0], np.cumsum(counts)])
    return _SUCCESS


def _from_dense(numbers: Sequence[int]) -> int:
    rest = iter(numbers)
    a, b = _matrix(rest), _sparse(rest)
    # In the order of the format: by columns for CSC.
    first, second = np.nonzero(a.numbers().T if b.format == _CSC else a.numbers())
    b.inner()[...] = second + b.base
    if b.format == _COO:
        b.outer()[...] = first + b.base
    rows, cols = (second, first) if b.format == _CSC else (first, second)
    store(b.stored(), b.kind, a.numbers()[rows, cols])
    return _SUCCESS


OPERATIONS = {
    "sparse_mv": _times_vector, "sparse_mm": _times_matrix, "sparse_sddmm": _sampled,
    "sparse_solve": _solve, "sparse_to_dense": _to_dense, "sparse_count": _count,
    "sparse_from_dense": _from_dense,
}  # fmt: skip
