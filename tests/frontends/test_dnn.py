"""cuDNN's functions as weft computes them, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import draw
from weft.frontends.program.libraries import dnn

ONE, ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)
SCALES = [ONE.ctypes.data, ZERO.ctypes.data]


def _tensor(x: torch.Tensor) -> list[int]:
    """The address, the type, sizes and strides."""
    return [x.data_ptr(), 0, *x.shape, *x.stride()]


def _double(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def _random(*shape: int, last: bool = False) -> torch.Tensor:
    x = draw.seeded(sum(shape)).normal(*shape)
    return x.to(memory_format=torch.channels_last) if last else x


CONVOLUTIONS = [
    pytest.param((1, 1), (1, 1), (1, 1), 1, False, id="padded"),
    pytest.param((0, 2), (2, 1), (1, 2), 1, False, id="strides, dilation"),
    pytest.param((1, 0), (2, 3), (1, 1), 2, True, id="groups, channels last"),
]


@pytest.mark.parametrize(("pad", "stride", "dilation", "groups", "last"), CONVOLUTIONS)
def test_convolution_and_its_gradients(
    pad: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    last: bool,
) -> None:
    x = _random(2, 4, 9, 8, last=last).requires_grad_()
    w = _random(6, 4 // groups, 3, 3, last=last).requires_grad_()
    y = F.conv2d(x, w, None, stride, pad, dilation, groups)
    dy = draw.seeded(2).normal(y.shape)
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    how = [*pad, *stride, *dilation, 1, groups]
    out = [torch.zeros_like(t) for t in (y, dx, dw)]
    with torch.no_grad():
        dnn.compute("forward", [*_tensor(x), *_tensor(w), *_tensor(out[0]), *how, *SCALES])
        dnn.compute("backward_data", [*_tensor(w), *_tensor(dy), *_tensor(out[1]), *how, *SCALES])
        dnn.compute("backward_filter", [*_tensor(x), *_tensor(dy), *_tensor(out[2]), *how, *SCALES])
    for found, expected in zip(out, (y, dx, dw), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_mode_convolution_turns_the_filter_and_beta_keeps_old_values() -> None:
    x, w = _random(1, 1, 5, 5), _random(1, 1, 2, 3)
    y = torch.ones(1, 1, 4, 3)
    half = np.full(1, 0.5, np.float32)
    numbers = [*_tensor(x), *_tensor(w), *_tensor(y), 0, 0, 1, 1, 1, 1, 0, 1]
    dnn.compute("forward", [*numbers, ONE.ctypes.data, half.ctypes.data])
    torch.testing.assert_close(y, F.conv2d(x, w.flip(2, 3)) + 0.5)


POOLINGS: list[Any] = [
    pytest.param(0, lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 1)), id="max"),
    pytest.param(1, lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1)), id="with padding"),
    pytest.param(
        2, lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=False), id="without"
    ),
]


@pytest.mark.parametrize(("mode", "function"), POOLINGS)
def test_pooling_and_its_gradient(mode: int, function: Any) -> None:
    x = _random(2, 3, 7, 6).requires_grad_()
    y = function(x)
    dy = draw.seeded(2).normal(y.shape)
    (dx,) = torch.autograd.grad(y, x, dy)
    found, gradient, how = torch.zeros_like(y), torch.zeros_like(x), [mode, 3, 2, 1, 1, 2, 2]
    with torch.no_grad():
        dnn.compute("pooling", [*_tensor(x), *_tensor(found), *how, *SCALES])
        inputs = [*_tensor(found), *_tensor(dy), *_tensor(x), *_tensor(gradient)]
        dnn.compute("pooling_backward", [*inputs, *how, *SCALES])
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(gradient, dx)


ACTIVATIONS: list[Any] = [
    (0, torch.sigmoid, 0.0), (1, torch.relu, 0.0), (2, torch.tanh, 0.0),
    (3, lambda x: x.clamp(0, 0.7), 0.7), (4, lambda x: F.elu(x, 1.5), 1.5),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "function", "coefficient"), ACTIVATIONS)
def test_activation_and_its_gradient(mode: int, function: Any, coefficient: float) -> None:
    x = _random(2, 3, 4, 5).requires_grad_()
    y = function(x)
    dy = draw.seeded(2).normal(y.shape)
    (dx,) = torch.autograd.grad(y, x, dy)
    found, gradient, how = torch.zeros_like(y), torch.zeros_like(x), [mode, _double(coefficient)]
    with torch.no_grad():
        dnn.compute("activation", [*_tensor(x), *_tensor(found), *how, *SCALES])
        inputs = [*_tensor(found), *_tensor(dy), *_tensor(x), *_tensor(gradient)]
        dnn.compute("activation_backward", [*inputs, *how, *SCALES])
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(gradient, dx)


@pytest.mark.parametrize(("algorithm", "function"), [(1, F.softmax), (2, F.log_softmax)])
def test_softmax_and_its_gradient(algorithm: int, function: Any) -> None:
    x = _random(2, 5, 3, 2).requires_grad_()
    y = function(x, 1)
    dy = draw.seeded(2).normal(y.shape)
    (dx,) = torch.autograd.grad(y, x, dy)
    found, gradient = torch.zeros_like(y), torch.zeros_like(x)
    with torch.no_grad():
        dnn.compute("softmax", [*_tensor(x), *_tensor(found), algorithm, 1, *SCALES])
        inputs = [*_tensor(found), *_tensor(dy), *_tensor(gradient)]
        dnn.compute("softmax_backward", [*inputs, algorithm, 1, *SCALES])
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(gradient, dx)


def test_batch_norm_in_training_and_inference() -> None:
    x = _random(4, 3, 5, 6).requires_grad_()
    scale, bias = (draw.seeded(s).uniform(3).requires_grad_() for s in range(2))
    mean, variance = torch.zeros(3), torch.ones(3)
    running = [mean.clone(), variance.clone()]
    y = F.batch_norm(x, *running, scale, bias, training=True, momentum=0.3)
    dy = draw.seeded(2).normal(y.shape)
    gradients = torch.autograd.grad(y, (x, scale, bias), dy)

    def parameter(t: torch.Tensor) -> list[int]:
        return [t.data_ptr(), 0, 1, 3, 1, 1, 3, 1, 1, 1]

    saved = [torch.zeros(3), torch.zeros(3)]
    found, epsilon = torch.zeros_like(y), _double(1e-5)
    outs = [torch.zeros_like(x), torch.zeros(3), torch.zeros(3)]
    with torch.no_grad():
        parameters = [n for t in (scale, bias, mean, variance, *saved) for n in parameter(t)]
        how = [1, epsilon, _double(0.3), 1, 1]
        dnn.compute("norm_training", [*_tensor(x), *_tensor(found), *parameters, *how, *SCALES])
        torch.testing.assert_close(found, y)
        torch.testing.assert_close([mean, variance], running)
        parameters = [n for t in (scale, *outs[1:], *saved) for n in parameter(t)]
        tensors = [*_tensor(x), *_tensor(dy), *_tensor(outs[0])]
        dnn.compute("norm_backward", [*tensors, *parameters, 1, epsilon, 1, *SCALES, *SCALES])
        torch.testing.assert_close(outs, list(gradients), rtol=1e-4, atol=1e-4)
        parameters = [n for t in (scale, bias, mean, variance) for n in parameter(t)]
        numbers = [*_tensor(x), *_tensor(found), *parameters, 1, epsilon, *SCALES]
        dnn.compute("norm_inference", numbers)
        torch.testing.assert_close(found, F.batch_norm(x, mean, variance, scale, bias))
