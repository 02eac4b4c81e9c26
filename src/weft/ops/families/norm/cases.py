"""Norms of rows and of channels, forward and backward, with and without weights."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from torch.nn import functional

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Call, Tensor

LEAST = 8
"""Elements of a row at least: the gradients of shorter ones are differences of equal numbers."""


def drawn_weights(
    rng: random.Random, shape: tuple[int, ...], dtype: str, count: int, mixed: bool = False
) -> Any:
    """Weights of the input's dtype, or none; with `mixed` also float32, which torch must take."""
    if rng.random() < 0.2:
        return (None,) * count
    kind = rng.choice((dtype, "float32")) if mixed else dtype
    return tuple(draw.tensor(rng, shape, kind, plain=0.9) for _ in range(count))


def _rows(name: str, rows: int, weights: int) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        *lead, n = draw.shape(rng, (1, 2, 2, 3), most)
        shape, dtype = (*lead, max(LEAST, n)), rng.choice(FLOATS)
        inputs = tuple(draw.tensor(rng, shape, dtype, plain=0.8) for _ in range(rows))
        normalized = shape[-2:] if len(shape) > 1 and rng.random() < 0.2 else shape[-1:]
        tensors = (*inputs, *drawn_weights(rng, normalized, dtype, weights))
        return Call(name, tensors, {"normalized_shape": normalized})

    return drawn


def drawn_images(rng: random.Random, most: int) -> Tensor:
    """Contiguous images, or with channels last; a matrix in one of five calls."""
    side = rng.choice((7, 14, 28, 56, draw.size(rng, 64)))
    side = min(side, max(1, round((most / LEAST) ** 0.5)))
    room = max(1, most // (side * side))
    channels = draw.size(rng, min(2048, room))
    batch = max(LEAST, draw.size(rng, max(1, room // channels)))
    dtype = rng.choice(FLOATS)
    if rng.random() < 0.2:
        return draw.tensor(rng, (batch * side, channels), dtype, plain=0.8)
    shape = (batch, channels, side, side)
    return Tensor(shape, dtype, rng.choice(((0, 1, 2, 3), (0, 2, 3, 1))))


def _batch(rng: random.Random, most: int) -> Call:
    x = drawn_images(rng, most)
    return Call("batch_norm", (x, *drawn_weights(rng, x.shape[1:2], x.dtype, 2, mixed=True)), {})


def _group(rng: random.Random, most: int) -> Call:
    x = drawn_images(rng, most)
    images, channels, *sides = x.shape
    if channels * math.prod(sides) < LEAST:
        x = dataclasses.replace(x, shape=(images, LEAST, *sides))
    divisors = [d for d in range(1, min(64, x.shape[1]) + 1) if x.shape[1] % d == 0]
    size = max(1, LEAST // max(1, x.shape[-1] if len(x.shape) == 4 else 1))
    groups = rng.choice([d for d in divisors if x.shape[1] // d >= size] or [1])
    return Call(
        "group_norm", (x, *drawn_weights(rng, x.shape[1:2], x.dtype, 2)), {"num_groups": groups}
    )


def _instance(rng: random.Random, most: int) -> Call:
    """Images, as of style transfer, whose planes have at least LEAST elements."""
    x = drawn_images(rng, most)
    if len(x.shape) == 2 or math.prod(x.shape[2:]) < LEAST:
        x = Tensor((*x.shape[:2], LEAST), x.dtype, (0, 1, 2))
    return Call("instance_norm", (x, *drawn_weights(rng, x.shape[1:2], x.dtype, 2)), {})


ALEXNET = ((128, 96, 27, 27), (128, 256, 13, 13))
"""Inputs of the norms in AlexNet, whose windows have 5 channels."""


def _responses(rng: random.Random, most: int) -> Call:
    known = [shape for shape in ALEXNET if math.prod(shape) <= most]
    if known and rng.random() < 0.2:
        x = draw.tensor(rng, rng.choice(known), rng.choice(FLOATS), plain=1.0)
        return Call("local_response_norm", (x,), {"size": 5})
    x = draw.tensor(rng, draw.shape(rng, (3, 4), most), rng.choice(FLOATS), plain=0.8)
    return Call("local_response_norm", (x,), {"size": rng.choice((2, 3, 5, 5, 7, 9)), "alpha": 0.1})


def _length(call: Call) -> int:
    return max(call.shape()) if "normalized_shape" not in call.options else call.shape()[-1]


_LAYER = Case(
    "layer_norm",
    _rows("layer_norm", 1, 2),
    lambda x, w, b, normalized_shape: functional.layer_norm(x, normalized_shape, w, b),
    weft=lambda x, w, b, normalized_shape: library.call("layer_norm")(x, normalized_shape, w, b),
    depth=_length,
    shared=True,
)
_RMS = Case(
    "rms_norm",
    _rows("rms_norm", 1, 1),
    lambda x, w, normalized_shape: functional.rms_norm(x, normalized_shape, w, 1e-6),
    weft=lambda x, w, normalized_shape: library.call("rms_norm")(x, normalized_shape, w, 1e-6),
    depth=_length,
    shared=True,
)


def _summed(x: Any, residual: Any, w: Any, normalized_shape: Any) -> Any:
    total = x + residual
    return functional.rms_norm(total, normalized_shape, w, 1e-6), total


_ADD = Case(
    "add_rms_norm", _rows("add_rms_norm", 2, 1), _summed,
    weft=lambda x, residual, w, normalized_shape: library.call("add_rms_norm")(
        x, residual, normalized_shape, w, 1e-6),
    depth=_length, shared=True, roundings=8,
)  # fmt: skip


def _summed_layer(x: Any, residual: Any, w: Any, b: Any, normalized_shape: Any) -> Any:
    total = x + residual
    return functional.layer_norm(total, normalized_shape, w, b), total


_ADD_LAYER = Case(
    "add_layer_norm", _rows("add_layer_norm", 2, 2), _summed_layer,
    weft=lambda x, residual, w, b, normalized_shape: library.call("add_layer_norm")(
        x, residual, normalized_shape, w, b),
    depth=_length, shared=True, roundings=8,
)  # fmt: skip
_BATCH = Case(
    "batch_norm",
    _batch,
    lambda x, w, b: functional.batch_norm(x, None, None, w, b, True),
    weft=lambda x, w, b: library.call("batch_norm")(x, None, None, w, b, True),
    depth=_length,
    shared=True,
)
_GROUP = Case(
    "group_norm",
    _group,
    lambda x, w, b, num_groups: functional.group_norm(x, num_groups, w, b),
    weft=lambda x, w, b, num_groups: library.call("group_norm")(x, num_groups, w, b),
    depth=_length,
    shared=True,
)
_INSTANCE = Case(
    "instance_norm",
    _instance,
    lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
    weft=lambda x, w, b: library.call("instance_norm")(x, weight=w, bias=b),
    depth=_length,
    shared=True,
)
_RESPONSES = Case("local_response_norm", _responses, functional.local_response_norm, roundings=8)
_ALL = (_LAYER, _RMS, _ADD, _BATCH, _GROUP, _INSTANCE, _RESPONSES)
CASES = (
    *_ALL,
    _ADD_LAYER,
    *(dataclasses.replace(c.with_backward(roundings=16), shared=c is not _LAYER) for c in _ALL),
)
