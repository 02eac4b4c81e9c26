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
from weft.frontends.program.libraries.products import product

_CONVOLUTION = 0  # the mode that turns the filter; the other is the cross-correlation
_MOST_COLUMN_ELEMENTS = 1 << 21


# ---- convolution --------------------------------------------------------------------------------
class _Convolution:
    """Padding, strides, dilation, mode and groups.

    A convolution is a matrix product: a column has the inputs of one output pixel. Columns are made
    for some rows of the output at a time.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.pad, self.stride, self.dilation = (numbers.take(2) for _ in range(3))
        self.mode, self.groups = numbers.take(2)

    def padded(self, image: Array) -> Array:
        (top, left) = self.pad
        return np.pad(wide(image), ((0, 0), (top, top), (left, left)))

    def in_groups(self, filter: Array) -> Array:
        """The filter as a matrix for each group, in the order of the columns."""
        flipped = filter[:, :, ::-1, ::-1] if self.mode == _CONVOLUTION else filter
        return wide(flipped).reshape(self.groups, len(filter) // self.groups, -1)

    def rows(self, filter: Array, out: Array) -> Iterator[slice]:
        """Rows of the output whose columns fit the caches."""
        row = filter[0].size * self.groups * out.shape[3]
        step = max(1, _MOST_COLUMN_ELEMENTS // row)
        yield from (slice(i, min(i + step, out.shape[2])) for i in range(0, out.shape[2], step))

    def windows(self, image: Array, filter: Array, out: Array, rows: slice) -> Array:
        """The input of each tap and output pixel: a view of a padded image."""
        (down, right), (row, column) = self.stride, self.dilation
        plane, line, step = image.strides
        return np.lib.stride_tricks.as_strided(
            image[:, rows.start * down :],
            (len(image), *filter.shape[2:], rows.stop - rows.start, out.shape[3]),
            (plane, row * line, column * step, down * line, right * step),
        )

    def columns(self, image: Array, filter: Array, out: Array, rows: slice) -> Array:
        """The windows as a matrix for each group."""
        windows = self.windows(image, filter, out, rows)
        pixels = windows.shape[3] * windows.shape[4]
        return windows.reshape(self.groups, -1, pixels)


def _forward(numbers: Numbers) -> int:
    x, w, y = numbers.tensor(), numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Convolution(numbers), numbers.scale(y), numbers.scale(y)
    matrices = how.in_groups(w)
    for image, out in zip(x, y, strict=True):
        padded = how.padded(image)
        for rows in how.rows(w, y):
            result = product(matrices, how.columns(padded, w, y, rows))
            part = out[:, rows]
            store(part, alpha, result.reshape(part.shape), beta)
    return SUCCESS


def _backward_data(numbers: Numbers) -> int:
    w, dy, dx = numbers.tensor(), numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Convolution(numbers), numbers.scale(dx), numbers.scale(dx)
    matrices = how.in_groups(w).swapaxes(1, 2)
    (top, left), (height, width) = how.pad, dx.shape[2:]
    for image, out in zip(dx, dy, strict=True):
        padded = np.zeros_like(how.padded(image))
        for rows in how.rows(w, dy):
            windows = how.windows(padded, w, dy, rows)
            slopes = wide(out[:, rows]).reshape(how.groups, matrices.shape[2], -1)
            each = product(matrices, slopes).reshape(windows.shape)
            for i, j in np.ndindex(*w.shape[2:]):  # the windows of two taps overlap
                windows[:, i, j] += each[:, i, j]
        store(image, alpha, padded[:, top : top + height, left : left + width], beta)
    return SUCCESS


def _backward_filter(numbers: Numbers) -> int:
    x, dy, dw = numbers.tensor(), numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Convolution(numbers), numbers.scale(dw), numbers.scale(dw)
    total = np.zeros_like(how.in_groups(dw))
    for image, out in zip(x, dy, strict=True):
        padded = how.padded(image)
        for rows in how.rows(dw, dy):
            columns = how.columns(padded, dw, dy, rows)
            slopes = wide(out[:, rows]).reshape(how.groups, total.shape[1], -1)
            total += product(slopes, columns.swapaxes(1, 2))
    result = total.reshape(dw.shape)
    store(dw, alpha, result[:, :, ::-1, ::-1] if how.mode == _CONVOLUTION else result, beta)
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
        lambda x, c: np.where(x > 0, x, c * np.expm1(x)),
        lambda x, y, c: np.where(x > 0, 1, y + c),
    ),
    5: (lambda x, c: x, lambda x, y, c: 1),
}
"""Mode -> the function of x and the coefficient, and its derivative from x and y."""


def _activation(numbers: Numbers) -> int:
    x, y, mode = numbers.tensor(), numbers.tensor(), numbers.one()
    coefficient = float(np.int64(numbers.one()).view(np.float64))
    alpha, beta = numbers.scale(y), numbers.scale(y)
    if mode not in _ACTIVATIONS:
        return BAD_PARAM
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
    """Execute one call; return a cudnnStatus_t."""
    return _OPERATIONS[name](Numbers(numbers))
