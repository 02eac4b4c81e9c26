"""Elements by index and sums by index, forward and backward."""

from __future__ import annotations

import math
import random

import torch

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call, Tensor

MODELS = (
    ((2048, 50257), 1, 1),  # the score of each word of a text, GPT-2
    ((16384, 64), 1, 8),  # the experts of each word, a mixture of 64
    ((128, 256, 32), 1, 128),  # positions that a masked autoencoder keeps
    ((2708, 16), 0, 10556),  # edges to nodes of the graph Cora
)
"""Calls of real models: the shape of input, dim, and places along it."""


def _shape(rng: random.Random, most: int) -> tuple[tuple[int, ...], int]:
    """A shape, and one of its dimensions."""
    known = [(shape, dim) for shape, dim, _ in MODELS if math.prod(shape) <= most]
    if known and rng.random() < 0.2:
        return rng.choice(known)
    shape = draw.shape(rng, (1, 2, 2, 3, 4), most)
    return shape, rng.randrange(len(shape))


def _index(rng: random.Random, shape: tuple[int, ...], dim: int, most: int) -> Tensor:
    """An index as long as a row, of a few places, or of one: those of a class, of the best k."""
    lines = max(1, math.prod(shape) // shape[dim])
    known = next((length for s, d, length in MODELS if (s, d) == (shape, dim)), 0)
    length = known or rng.choice(
        (1, min(8, shape[dim]), shape[dim], draw.size(rng, max(1, most // lines)))
    )
    sizes = tuple(length if d == dim else n for d, n in enumerate(shape))
    return draw.integers(sizes, 0, shape[dim])


def _gather(rng: random.Random, most: int) -> Call:
    shape, dim = _shape(rng, most)
    x = draw.tensor(rng, shape, rng.choice(FLOATS), plain=0.8)
    return Call("gather", (x, _index(rng, shape, dim, most)), {"dim": dim})


def _select(rng: random.Random, most: int) -> Call:
    shape, dim = _shape(rng, most)
    count = draw.size(rng, max(1, most * shape[dim] // max(1, math.prod(shape))))
    x = draw.tensor(rng, shape, rng.choice(FLOATS), plain=0.8)
    return Call("index_select", (x, draw.integers((count,), 0, shape[dim])), {"dim": dim})


def _scatter(rng: random.Random, most: int) -> Call:
    shape, dim = _shape(rng, most)
    index = _index(rng, shape, dim, most)
    dtype = rng.choice(FLOATS)
    tensors = (draw.tensor(rng, s, dtype, plain=0.8) for s in (shape, index.shape))
    base, src = tensors
    return Call("scatter_add", (base, index, src), {"dim": dim})


_GATHER = Case(
    "gather", _gather, lambda x, index, dim: torch.gather(x, dim, index), exact=True,
    weft=lambda x, index, dim: library.call("gather")(x, dim, index),
)  # fmt: skip
_SELECT = Case(
    "index_select", _select, lambda x, index, dim: torch.index_select(x, dim, index), exact=True,
    weft=lambda x, index, dim: library.call("index_select")(x, dim, index),
)  # fmt: skip
_SCATTER = Case(
    "scatter_add", _scatter, lambda x, index, src, dim: torch.scatter_add(x, dim, index, src),
    weft=lambda x, index, src, dim: library.call("scatter_add")(x, dim, index, src),
    depth=lambda call: call.shape(1)[call.options["dim"]], roundings=8,
)  # fmt: skip


def _positions(call: Call) -> int:
    """The most terms of a sum in the gradient of input."""
    return call.shape(1)[call.options["dim"]] if call.op == "gather" else call.shape(1)[0]


CASES = (
    _GATHER,
    _GATHER.with_backward(exact=False, depth=_positions, roundings=8),
    _SELECT,
    _SELECT.with_backward(exact=False, depth=_positions, roundings=8),
    _SCATTER,
    _SCATTER.with_backward(),
)
