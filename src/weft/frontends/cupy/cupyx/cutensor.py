"""`cupyx.cutensor`: contractions, reductions and sums of tensors whose axes have names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from weft.frontends.cupy.arrays import ndarray
from weft.frontends.cupy.host_objects import to_device

OP_IDENTITY, OP_SQRT, OP_RELU, OP_CONJ, OP_RCP = 1, 2, 8, 9, 10
OP_ADD, OP_MUL, OP_MAX, OP_MIN = 3, 5, 6, 7
_UNARY: dict[int, Callable[[Any], Any]] = {
    OP_IDENTITY: lambda x: x, OP_SQRT: np.sqrt, OP_RELU: lambda x: np.maximum(x, 0),
    OP_CONJ: np.conj, OP_RCP: np.reciprocal,
}  # fmt: skip
_BINARY = {OP_ADD: np.add, OP_MUL: np.multiply, OP_MAX: np.maximum, OP_MIN: np.minimum}
Mode = Sequence[Hashable]


def _aligned(x: ndarray, mode: Mode, to: Mode) -> Any:
    """Return a tensor with its axes in another order; a missing axis has the length 1."""
    names = [m for m in to if m in mode]
    moved = x._host.transpose([list(mode).index(m) for m in names])
    return moved.reshape([moved.shape[names.index(m)] if m in names else 1 for m in to])


def _stored(value: Any, like: ndarray, out: ndarray | None) -> Any:
    value = value.astype(like.dtype)
    if out is None:
        return to_device(value)
    out._host[...] = value
    return out


def contraction(
    alpha: float, A: ndarray, modeA: Mode, B: ndarray, modeB: Mode, beta: float, C: ndarray,
    modeC: Mode, *_: Any, **__: Any,
) -> ndarray:  # fmt: skip
    """Compute C = alpha * A * B + beta * C, summed over the axes that C lacks."""
    number = {m: i for i, m in enumerate(dict.fromkeys([*modeA, *modeB, *modeC]))}
    modes = [[number[m] for m in mode] for mode in (modeA, modeB, modeC)]
    product = np.einsum(A._host, modes[0], B._host, modes[1], modes[2], optimize=True)
    C._host[...] = alpha * product + beta * C._host
    return C


def reduction(
    alpha: float, A: ndarray, modeA: Mode, beta: float, C: ndarray, modeC: Mode,
    reduce_op: int = OP_ADD, *_: Any, **__: Any,
) -> ndarray:  # fmt: skip
    """Compute C = alpha * reduced(A) + beta * C over the axes that C lacks."""
    gone = tuple(i for i, m in enumerate(modeA) if m not in modeC)
    left = [m for m in modeA if m in modeC]
    reduced = to_device(_BINARY[reduce_op].reduce(A._host, axis=gone))
    C._host[...] = alpha * _aligned(reduced, left, modeC) + beta * C._host
    return C


def elementwise_binary(
    alpha: float, A: ndarray, modeA: Mode, gamma: float, C: ndarray, modeC: Mode, *,
    out: ndarray | None = None, op_A: int = OP_IDENTITY, op_C: int = OP_IDENTITY,
    op_AC: int = OP_ADD, **_: Any,
) -> Any:  # fmt: skip
    """Compute op_AC(alpha * op_A(A), gamma * op_C(C))."""
    a = alpha * _UNARY[op_A](_aligned(A, modeA, modeC))
    return _stored(_BINARY[op_AC](a, gamma * _UNARY[op_C](C._host)), C, out)


def elementwise_trinary(
    alpha: float, A: ndarray, modeA: Mode, beta: float, B: ndarray, modeB: Mode, gamma: float,
    C: ndarray, modeC: Mode, *, out: ndarray | None = None, op_A: int = OP_IDENTITY,
    op_B: int = OP_IDENTITY, op_C: int = OP_IDENTITY, op_AB: int = OP_ADD, op_ABC: int = OP_ADD,
    **_: Any,
) -> Any:  # fmt: skip
    """Compute op_ABC(op_AB(alpha * op_A(A), beta * op_B(B)), gamma * op_C(C))."""
    a = alpha * _UNARY[op_A](_aligned(A, modeA, modeC))
    b = beta * _UNARY[op_B](_aligned(B, modeB, modeC))
    return _stored(_BINARY[op_ABC](_BINARY[op_AB](a, b), gamma * _UNARY[op_C](C._host)), C, out)
