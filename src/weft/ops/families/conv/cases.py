"""Convolutions: images and signals, strided, padded, dilated, in groups and depthwise."""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

EDGES = {1: 4096, 2: 160}
"""The longest side of a signal and of an image."""


def _drawn(dims: int) -> Any:
    def drawn(rng: random.Random, most: int) -> Call:
        taps = [rng.choice((1, 1, 2, 3, 3, 3, 5, 7)) for _ in range(dims)]
        dilation = rng.choice((1, 1, 1, 2))
        least = [dilation * (t - 1) + 1 for t in taps]
        edge = max(8, min(EDGES[dims], round((most / 4) ** (1 / dims))))
        sizes = [max(n, draw.size(rng, edge)) for n in least]
        room = max(1, most // math.prod(sizes))
        groups, c, k = _channels(rng, min(256, room))
        n = max(1, min(draw.size(rng, 64), room // max(c, k)))
        dtype = rng.choice(FLOATS)
        x = draw.tensor(rng, (n, c, *sizes), dtype, plain=0.75)
        weight = draw.tensor(rng, (k, c // groups, *taps), dtype, plain=0.9)
        bias = draw.tensor(rng, (k,), dtype) if rng.random() < 0.5 else None
        options = {
            "stride": rng.choice((1, 1, 2, 3)),
            "padding": rng.choice((0, 1, max(taps) // 2)),
            "dilation": dilation,
            "groups": groups,
        }
        return Call(f"conv{dims}d", (x, weight, bias), options)

    return drawn


def _channels(rng: random.Random, most: int) -> tuple[int, int, int]:
    """(groups, channels, filters): one group, some, or one for each channel."""
    c, k = draw.size(rng, most), draw.size(rng, most)
    way = rng.random()
    if way < 0.7:
        return 1, c, k
    if way < 0.85:
        groups = rng.choice((2, 3, 4))
        return groups, max(1, c // groups) * groups, max(1, k // groups) * groups
    return c, c, c * rng.choice((1, 1, 2))


def _depth(call: Call) -> int:
    _, c, *taps = call.shape(1)
    return int(c * math.prod(taps))


CONV1D = Case("conv1d", _drawn(1), torch.nn.functional.conv1d, depth=_depth, shared=True)
# The transforms of Winograd's algorithm round a few times more.
CONV2D = Case("conv2d", _drawn(2), torch.nn.functional.conv2d, depth=_depth, roundings=8)


def _images(call: Call) -> int:
    """The terms of a gradient of the weight."""
    n, _, *sizes = call.shape()
    return int(n * math.prod(sizes))


CASES = (CONV1D, CONV2D, CONV2D.with_backward(shared=True, depth=_images))
