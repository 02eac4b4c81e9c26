"""The fused block of convolution, batch norm, ReLU and max pooling."""

from __future__ import annotations

import math
import random
from typing import Any

from torch.nn import functional

from weft.ops.sweep import draw
from weft.ops.sweep.case import Case
from weft.ops.sweep.draw import Call, Tensor


def _drawn(rng: random.Random, most: int) -> Call:
    size = rng.choice((1, 3, 3, 3, 5))
    side = max(6, draw.size(rng, max(6, min(64, round(most**0.35)))))
    room = max(2, most // (side * side))
    channels, filters = (draw.size(rng, max(1, min(128, room // 2))) for _ in range(2))
    images = max(2, min(256, room // max(channels, filters)))
    weight = Tensor((filters, channels, size, size), "float32", (0, 1, 2, 3))
    mean, gamma, beta = (Tensor((filters,), "float32", (0,)) for _ in range(3))
    var = Tensor((filters,), "float32", (0,), contents="near one")  # it is positive
    x = draw.tensor(rng, (images, channels, side, side), "float32", plain=0.8)
    options: dict[str, Any] = {"padding": rng.choice((0, size // 2))}
    return Call("conv_bn_relu_pool", (x, weight, None, mean, var, gamma, beta), options)


def _chain(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, gamma: Any, beta: Any, padding: int
) -> Any:
    y = functional.conv2d(x, weight, bias, padding=padding)
    z = functional.batch_norm(y, mean, var, gamma, beta)
    return functional.max_pool2d(functional.relu(z), 2)


CASES = (
    Case("conv_bn_relu_pool", _drawn, _chain, depth=lambda call: math.prod(call.shape(1)[1:])),
)
