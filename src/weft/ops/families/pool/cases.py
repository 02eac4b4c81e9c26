"""Pooling, forward and backward: windows of any size, stride and padding."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Call, Tensor

LAST = (0, 2, 3, 1)


def _images(rng: random.Random, most: int, least: int) -> Tensor:
    """Images of everyday proportions: contiguous, channels last, or misaligned."""
    side = max(least, draw.size(rng, max(least, min(224, round(most**0.4)))))
    height = max(least, side + rng.choice((0, 0, 0, 1, -1)))
    room = max(1, most // (height * side))
    channels = draw.size(rng, min(256, room))
    shape = (draw.size(rng, max(1, room // channels)), channels, height, side)
    tensor = draw.tensor(rng, shape, rng.choice(FLOATS), plain=0.8)
    if rng.random() < 0.3:
        return Tensor(shape, tensor.dtype, LAST)
    return tensor


def _drawn(name: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        kernel = rng.choice((2, 2, 3, 3, rng.randint(1, 6)))
        options: dict[str, Any] = {
            "kernel_size": kernel,
            "stride": rng.choice((None, None, 2, rng.randint(1, 5))),
            "padding": rng.choice((0, 0, rng.randint(0, kernel // 2))),
            "ceil_mode": rng.random() < 0.2,
        }
        return Call(name, (_images(rng, most, kernel),), options)

    return drawn


def _adaptive(name: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        x = _images(rng, most, 2)
        size = tuple(rng.randint(1, min(n, 9)) for n in x.shape[2:])
        return Call(name, (x,), {"output_size": size})

    return drawn


def _taps(call: Call) -> int:
    if "kernel_size" in call.options:
        kernel = int(call.options["kernel_size"])
        return kernel * kernel
    rows, columns = call.options["output_size"]
    _, _, height, width = call.shape()
    return (height // int(rows) + 2) * (width // int(columns) + 2)


def _rows_first(pool: Callable[..., Any]) -> Callable[..., Any]:
    """The pool of a copy whose strides are those of rows, also where there is one channel.

    On a GPU, PyTorch's gradients for channels-last tensors are wrong where windows are padded, and
    fail with one channel. `contiguous` keeps the strides of a channels-last tensor of one channel.
    """
    return lambda x, **options: pool(x.clone(memory_format=torch.contiguous_format), **options)


_MAX = Case("max_pool2d", _drawn("max_pool2d"), functional.max_pool2d, exact=True)
_AVG = Case("avg_pool2d", _drawn("avg_pool2d"), functional.avg_pool2d, depth=_taps,
            scale=lambda x, call: 1.0)  # fmt: skip
_ADAPTIVE = Case("adaptive_avg_pool2d", _adaptive("adaptive_avg_pool2d"),
                 functional.adaptive_avg_pool2d, depth=_taps,
                 scale=lambda x, call: 1.0)  # fmt: skip
CASES = (
    _MAX,
    _MAX.with_backward(reference=_rows_first(functional.max_pool2d), exact=False, depth=_taps),
    _AVG,
    _AVG.with_backward(reference=_rows_first(functional.avg_pool2d)),
    _ADAPTIVE,
    _ADAPTIVE.with_backward(),
    Case("adaptive_max_pool2d", _adaptive("adaptive_max_pool2d"), functional.adaptive_max_pool2d,
         exact=True, shared=True),
)  # fmt: skip
