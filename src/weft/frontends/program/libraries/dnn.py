"""cuDNN's legacy interface by NumPy: convolution, sums, activation, softmax.

Halves are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.frontends.program.libraries import dnn_layers
from weft.frontends.program.libraries.arrays import Array
from weft.frontends.program.libraries.dnn_tensors import BAD_PARAM, SUCCESS, Numbers, store, wide

_CONVOLUTION = 0  # the mode that turns the filter; the other is the cross-correlation


# ---- convolution --------------------------------------------------------------------------------
class _Convolution:
    """Padding, strides, dilation, mode and groups, and the parts of an image that a tap meets."""

    def __init__(self, numbers: Numbers) -> None:
        self.pad, self.stride, self.dilation = (numbers.take(2) for _ in range(3))
        self.mode, self.groups = numbers.take(2)

    def padded(self, x: Array) -> Array:
        (top, left) = self.pad
        return np.pad(wide(x), ((0, 0), (0, 0), (top, top), (left, left)))

    def taps(self, filter: Array, out: Array) -> Iterator[tuple[tuple[int, int], Any]]:
        """Each tap of the filter as stored, and its slice of the padded image."""
        height, width = filter.shape[2:]
        for i in range(height):
            for j in range(width):
                rows = self._range(0, i, out.shape[2])
                columns = self._range(1, j, out.shape[3])
                tap = (height - 1 - i, width - 1 - j) if self.mode == _CONVOLUTION else (i, j)
                yield tap, (slice(None), slice(None), rows, columns)

    def _range(self, axis: int, tap: int, count: int) -> slice:
        first = tap * self.dilation[axis]
        return slice(first, first + (count - 1) * self.stride[axis] + 1, self.stride[axis])

    def parts(self, x: Array, filter: Array, y: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Channels of each group: of the input, the filter, the output."""
        whole = zip(
            np.split(x, self.groups, 1), np.split(filter, self.groups), np.split(y, self.groups, 1),
            strict=True,
        )  # fmt: skip
        yield from whole


def _forward(numbers: Numbers) -> int:
    x, w, y = numbers.tensor(), numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Convolution(numbers), numbers.scale(y), numbers.scale(y)
    result = np.zeros(y.shape, wide(y).dtype)
    for image, filter, out in how.parts(how.padded(x), wide(w), result):
        for (i, j), place in how.taps(w, y):
            out += np.einsum("nchw,kc->nkhw", image[place], filter[:, :, i, j], optimize=True)
    store(y, alpha, result, beta)
    return SUCCESS


def _backward_data(numbers: Numbers) -> int:
    w, dy, dx = numbers.tensor(), numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Convolution(numbers), numbers.scale(dx), numbers.scale(dx)
    padded = np.zeros_like(how.padded(dx))
    for image, filter, out in how.parts(padded, wide(w), wide(dy)):
        for (i, j), place in how.taps(w, dy):
            image[place] += np.einsum("nkhw,kc->nchw", out, filter[:, :, i, j], optimize=True)
    (top, left), (height, width) = how.pad, dx.shape[2:]
    store(dx, alpha, padded[:, :, top : top + height, left : left + width], beta)
    return SUCCESS


def _backward_filter(numbers: Numbers) -> int:
    x, dy, dw = numbers.tensor(), numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Convolution(numbers), numbers.scale(dw), numbers.scale(dw)
    result = np.zeros(dw.shape, wide(dw).dtype)
    for image, filter, out in how.parts(how.padded(x), result, wide(dy)):
        for (i, j), place in how.taps(dw, dy):
            filter[:, :, i, j] = np.einsum("nkhw,nchw->kc", out, image[place], optimize=True)
    store(dw, alpha, result, beta)
    return SUCCESS


def _backward_bias(numbers: Numbers) -> int:
    dy, db = numbers.tensor(), numbers.tensor()
    alpha, beta = numbers.scale(db), numbers.scale(db)
    store(db, alpha, wide(dy).sum((0, 2, 3), keepdims=True), beta)
    return SUCCESS


# ---- element by element -------------------------------------------------------------------------
def _add(numbers: Numbers) -> int:
    a, c = numbers.tensor(), numbers.tensor()
    alpha, beta = numbers.scale(c), numbers.scale(c)
    store(c, alpha, np.broadcast_to(wide(a), c.shape), beta)
    return SUCCESS


_ACTIVATIONS: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {
    0: (lambda x, c: 1 / (1 + np.exp(-x)), lambda x, y, c: y * (1 - y)),
    1: (lambda x, c: np.maximum(x, 0), lambda x, y, c: y > 0),
    2: (lambda x, c: np.tanh(x), lambda x, y, c: 1 - y * y),
    3: (lambda x, c: np.clip(x, 0, c), lambda x, y, c: (x > 0) & (x < c)),
    4: (
        lambda x, c: np.where(x > 0, x, c * np.expm1(x)), lambda x, y, c: np.where(x > 0, 1, y + c)
    ),
    5: (lambda x, c: x, lambda x, y, c: 1),
}  # fmt: skip
"""Mode -> the function of x and the coefficient, and its derivative from x and y."""


def _activation(numbers: Numbers) -> int:
    x, y, mode = numbers.tensor(), numbers.tensor(), numbers.one()
    coefficient = float(np.int64(numbers.one()).view(np.float64))
    alpha, beta = numbers.scale(y), numbers.scale(y)
    if mode not in _ACTIVATIONS:
        return BAD_PARAM
    with np.errstate(over="ignore"):
        store(y, alpha, _ACTIVATIONS[mode][0](wide(x), coefficient), beta)
    return SUCCESS


def _activation_backward(numbers: Numbers) -> int:
    y, dy, x, dx = (numbers.tensor() for _ in range(4))
    mode, coefficient = numbers.one(), float(np.int64(numbers.one()).view(np.float64))
    alpha, beta = numbers.scale(dx), numbers.scale(dx)
    if mode not in _ACTIVATIONS:
        return BAD_PARAM
    slope = _ACTIVATIONS[mode][1](wide(x), wide(y), coefficient)
    store(dx, alpha, wide(dy) * slope, beta)
    return SUCCESS


def _softmax(numbers: Numbers) -> int:
    x, y, algorithm, mode = numbers.tensor(), numbers.tensor(), *numbers.take(2)
    alpha, beta = numbers.scale(y), numbers.scale(y)
    axes = (1, 2, 3) if mode == 0 else (1,)
    shifted = wide(x) - wide(x).max(axes, keepdims=True)
    total = np.exp(shifted).sum(axes, keepdims=True)
    store(y, alpha, shifted - np.log(total) if algorithm == 2 else np.exp(shifted) / total, beta)
    return SUCCESS


def _softmax_backward(numbers: Numbers) -> int:
    y, dy, dx = (numbers.tensor() for _ in range(3))
    algorithm, mode = numbers.take(2)
    alpha, beta = numbers.scale(dx), numbers.scale(dx)
    axes, out, slope = (1, 2, 3) if mode == 0 else (1,), wide(y), wide(dy)
    if algorithm == 2:
        result = slope - np.exp(out) * slope.sum(axes, keepdims=True)
    else:
        result = out * (slope - (slope * out).sum(axes, keepdims=True))
    store(dx, alpha, result, beta)
    return SUCCESS


_OPERATIONS: dict[str, Callable[[Numbers], int]] = {
    "forward": _forward, "backward_data": _backward_data, "backward_filter": _backward_filter,
    "backward_bias": _backward_bias, "add": _add, "activation": _activation,
    "activation_backward": _activation_backward, "softmax": _softmax,
    "softmax_backward": _softmax_backward, **dnn_layers.OPERATIONS,
}  # fmt: skip


def compute(name: str, numbers: Sequence[int]) -> int:
    """Executes one call; returns a cudnnStatus_t."""
    return _OPERATIONS[name](Numbers(numbers))
