"""Pooling and batch norm of cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.frontends.program.libraries.arrays import Array
from weft.frontends.program.libraries.dnn_tensors import BAD_PARAM, SUCCESS, Numbers, store, wide

_MAXIMUM = (0, 3)
_COUNT_PADDING, _WITHOUT_PADDING = 1, 2


# ---- pooling ------------------------------------------------------------------------------------
class _Pooling:
    """The windows of a pooling layer, element by element."""

    def __init__(self, numbers: Numbers) -> None:
        self.mode = numbers.one()
        self.window, self.pad, self.stride = (numbers.take(2) for _ in range(3))

    def padded(self, x: Array, fill: float) -> Array:
        (top, left), (height, width) = self.pad, self.window
        # Windows may reach beyond the padding at the end.
        sides = ((0, 0), (0, 0), (top, top + height), (left, left + width))
        return np.pad(wide(x), sides, constant_values=fill)

    def taps(self, out: Array) -> Iterator[Any]:
        for i in range(self.window[0]):
            for j in range(self.window[1]):
                rows = slice(i, i + (out.shape[2] - 1) * self.stride[0] + 1, self.stride[0])
                columns = slice(j, j + (out.shape[3] - 1) * self.stride[1] + 1, self.stride[1])
                yield (slice(None), slice(None), rows, columns)

    def counts(self, x: Array, out: Array) -> Any:
        """The number of elements that an average is taken of."""
        if self.mode == _COUNT_PADDING:
            return self.window[0] * self.window[1]
        ones = self.padded(np.ones_like(wide(x)), 0)
        return sum(ones[place] for place in self.taps(out))


def _pooling(numbers: Numbers) -> int:
    x, y = numbers.tensor(), numbers.tensor()
    how, alpha, beta = _Pooling(numbers), numbers.scale(y), numbers.scale(y)
    if how.mode in _MAXIMUM:
        padded = how.padded(x, -np.inf)
        result = np.maximum.reduce([padded[place] for place in how.taps(y)])
    elif how.mode in (_COUNT_PADDING, _WITHOUT_PADDING):
        padded = how.padded(x, 0)
        result = sum(padded[place] for place in how.taps(y)) / how.counts(x, y)
    else:
        return BAD_PARAM
    store(y, alpha, result, beta)
    return SUCCESS


def _pooling_backward(numbers: Numbers) -> int:
    y, dy, x, dx = (numbers.tensor() for _ in range(4))
    how, alpha, beta = _Pooling(numbers), numbers.scale(dx), numbers.scale(dx)
    maximum = how.mode in _MAXIMUM
    values, gradient = how.padded(x, -np.inf), np.zeros_like(how.padded(x, 0))
    share = wide(dy) if maximum else wide(dy) / how.counts(x, y)
    open = np.ones(y.shape, bool)
    for place in how.taps(y):
        # The first maximum of a window gets the gradient.
        mine = open & (values[place] == wide(y)) if maximum else open
        gradient[place] += np.where(mine, share, 0)
        open = open & ~mine if maximum else open
    (top, left), (height, width) = how.pad, dx.shape[2:]
    store(dx, alpha, gradient[:, :, top : top + height, left : left + width], beta)
    return SUCCESS


# ---- batch norm ---------------------------------------------------------------------------------
def _axes(mode: int) -> tuple[int, ...]:
    """The axes of the statistics: for each activation, or for each channel."""
    return (0,) if mode == 0 else (0, 2, 3)


def _double(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))


def _norm_inference(numbers: Numbers) -> int:
    x, y, scale, bias, mean, variance = (numbers.tensor() for _ in range(6))
    _, epsilon = numbers.one(), _double(numbers.one())
    alpha, beta = numbers.scale(y), numbers.scale(y)
    store(y, alpha, (wide(x) - mean) / np.sqrt(variance + epsilon) * scale + bias, beta)
    return SUCCESS


def _norm_training(numbers: Numbers) -> int:
    x, y, scale, bias, mean, variance, saved_mean, saved_inverse = (
        numbers.tensor() for _ in range(8)
    )
    mode, epsilon, factor, running, saved = numbers.take(5)
    alpha, beta = numbers.scale(y), numbers.scale(y)
    values, axes = wide(x), _axes(mode)
    batch_mean = values.mean(axes, keepdims=True)
    batch_variance = values.var(axes, keepdims=True)
    inverse = 1 / np.sqrt(batch_variance + _double(epsilon))
    store(y, alpha, (values - batch_mean) * inverse * scale + bias, beta)
    if running:
        count, part = values.size // batch_mean.size, _double(factor)
        unbiased = batch_variance * (count / max(count - 1, 1))
        mean[...] = (1 - part) * mean + part * batch_mean
        variance[...] = (1 - part) * variance + part * unbiased
    if saved:
        saved_mean[...], saved_inverse[...] = batch_mean, inverse
    return SUCCESS


def _norm_backward(numbers: Numbers) -> int:
    x, dy, dx, scale, d_scale, d_bias, saved_mean, saved_inverse = (
        numbers.tensor() for _ in range(8)
    )
    mode, epsilon, saved = numbers.take(3)
    alpha, beta, alpha_parameters, beta_parameters = (numbers.scale(dx) for _ in range(4))
    values, slope, axes = wide(x), wide(dy), _axes(mode)
    mean = saved_mean if saved else values.mean(axes, keepdims=True)
    inverse = saved_inverse
    if not saved:
        inverse = 1 / np.sqrt(values.var(axes, keepdims=True) + _double(epsilon))
    normal = (values - mean) * inverse
    by_scale, by_bias = (slope * normal).sum(axes, keepdims=True), slope.sum(axes, keepdims=True)
    count = values.size // by_bias.size
    result = scale * inverse * (slope - (by_bias + normal * by_scale) / count)
    store(dx, alpha, result, beta)
    store(d_scale, alpha_parameters, by_scale, beta_parameters)
    store(d_bias, alpha_parameters, by_bias, beta_parameters)
    return SUCCESS


OPERATIONS: dict[str, Callable[[Numbers], int]] = {
    "pooling": _pooling,
    "pooling_backward": _pooling_backward,
    "norm_inference": _norm_inference,
    "norm_training": _norm_training,
    "norm_backward": _norm_backward,
}
