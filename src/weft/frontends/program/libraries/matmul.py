"""cuBLASLt's matrix product and its epilogues: bias, ReLU, GELU, and their gradients.

Sums and epilogues are computed in float32 (float64 for doubles) and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from weft.frontends.program.libraries.arrays import (
    DTYPES,
    Array,
    scalar,
    store,
    transposed,
    values,
    vector,
    view,
)
from weft.frontends.program.libraries.products import product

_INVALID_VALUE, _NOT_SUPPORTED = 7, 15
_RELU, _BIAS, _DRELU, _BGRAD, _GELU, _DGELU, _AUX = 2, 4, 8, 16, 32, 64, 128
_BGRAD_A, _BGRAD_B = 256, 512
"""Bits of an epilogue."""
_DERIVATIVES = _DRELU | _DGELU
_ROWS = 1  # order: row-major


class _Matrix(NamedTuple):
    """A matrix of a batch: `step` elements lie between two."""

    address: int
    type: int
    rows: int
    columns: int
    ld: int
    order: int
    step: int

    def at(self, i: int) -> Array:
        size = np.dtype(DTYPES[self.type]).itemsize
        steps = (self.ld, 1) if self.order == _ROWS else (1, self.ld)
        address = self.address + i * self.step * size
        return view(address, self.type, (self.rows, self.columns), steps)

    def get(self, i: int) -> Array:
        return values(self.at(i), self.type)


class _Epilogue(NamedTuple):
    """The operation on a product before it is stored."""

    bits: int
    bias: int
    bias_type: int
    bias_step: int
    aux: int
    aux_ld: int
    aux_type: int
    aux_step: int


def _matmul(numbers: Sequence[int]) -> int:
    rest: Iterator[int] = iter(numbers)
    a, b, c, d = (_Matrix(*(next(rest) for _ in range(7))) for _ in range(4))
    batch, scale, transpose_a, transpose_b = (next(rest) for _ in range(4))
    epilogue = _Epilogue(*(next(rest) for _ in range(8)))
    alpha_at, beta_at = rest
    if any(m.type not in DTYPES for m in (a, b, c, d)) or scale not in DTYPES:
        return _NOT_SUPPORTED
    alpha, beta = scalar(alpha_at, scale), scalar(beta_at, scale)
    for i in range(batch):
        x, y = transposed(a.get(i), transpose_a), transposed(b.get(i), transpose_b)
        if x.shape[1] != y.shape[0] or (x.shape[0], y.shape[1]) != (d.rows, d.columns):
            return _INVALID_VALUE
        # The result has the order of D, into which it is stored.
        result = product(x, y) if d.order == _ROWS else product(y.T, x.T).T
        if alpha != 1:
            result = alpha * result
        if beta:
            result = result + beta * c.get(i)
        _reduce(epilogue, i, x, y)
        store(d.at(i), d.type, _finished(result, epilogue, d.type, i))
    return 0


def _finished(result: Array, epilogue: _Epilogue, type: int, i: int) -> Array:
    """A product after its epilogue."""
    bits, kind = epilogue.bits, epilogue.bias_type if epilogue.bias_type >= 0 else type
    bias = vector(epilogue.bias + i * epilogue.bias_step * _bytes(kind), kind, len(result), 1)
    if bits & _BIAS:
        result = result + values(bias, kind)[:, None]
    if bits & _DERIVATIVES:
        result = result * _derivative(bits, _aux(epilogue, result.shape, type, i))
        if bits & _BGRAD:
            store(bias, kind, result.sum(1))
    elif bits & _AUX:
        _keep(epilogue, result, type, i)
    if bits & _RELU:
        result = np.maximum(result, 0)
    return _gelu(result) if bits & _GELU else result


def _reduce(epilogue: _Epilogue, i: int, x: Array, y: Array) -> None:
    """The gradient of a bias: sums over the shared dimension of an operand."""
    if epilogue.bits & (_BGRAD_A | _BGRAD_B):
        sums = x.sum(1) if epilogue.bits & _BGRAD_A else y.sum(0)
        kind = epilogue.bias_type if epilogue.bias_type >= 0 else 0
        at = epilogue.bias + i * epilogue.bias_step * _bytes(kind)
        store(vector(at, kind, len(sums), 1), kind, sums)


def _bytes(kind: int) -> int:
    return np.dtype(DTYPES[kind]).itemsize


# ---- activations --------------------------------------------------------------------------------
_C = float(np.sqrt(2 / np.pi))


def _gelu(x: Array) -> Array:
    y: Array = 0.5 * x * (1 + np.tanh(_C * (x + 0.044715 * x**3)))
    return y


def _derivative(bits: int, aux: Array) -> Array:
    if bits & _DRELU:
        return aux.astype(np.float32)
    t = np.tanh(_C * (aux + 0.044715 * aux**3))
    inner = _C * (1 + 3 * 0.044715 * aux * aux)
    y: Array = 0.5 * (1 + t) + 0.5 * aux * (1 - t * t) * inner
    return y


def _aux(epilogue: _Epilogue, shape: tuple[int, ...], type: int, i: int) -> Array:
    """The input of the activation, or for ReLU its mask, as the forward pass has kept it."""
    if epilogue.bits & _DRELU:
        return np.unpackbits(_mask(epilogue, shape, i), axis=0, bitorder="little")[: shape[0]]
    kind = epilogue.aux_type if epilogue.aux_type >= 0 else type
    return values(_kept(epilogue, shape, kind, i), kind)


def _keep(epilogue: _Epilogue, x: Array, type: int, i: int) -> None:
    if epilogue.bits & _RELU:
        _mask(epilogue, x.shape, i)[...] = np.packbits(x > 0, axis=0, bitorder="little")
    else:
        kind = epilogue.aux_type if epilogue.aux_type >= 0 else type
        store(_kept(epilogue, x.shape, kind, i), kind, x)


def _kept(epilogue: _Epilogue, shape: tuple[int, ...], kind: int, i: int) -> Array:
    at = epilogue.aux + i * epilogue.aux_step * _bytes(kind)
    return view(at, kind, (shape[0], shape[1]), (1, epilogue.aux_ld))


def _mask(epilogue: _Epilogue, shape: tuple[int, ...], i: int) -> Array:
    """One bit an element; the leading dimension counts bits."""
    rows, step = (shape[0] + 7) // 8, epilogue.aux_ld // 8
    at = epilogue.aux + i * epilogue.aux_step // 8
    return view(at, 3, (rows, shape[1]), (1, step)).view(np.uint8)


OPERATIONS = {"matmul": _matmul}
