"""Losses: cross-entropy and those of pairs of numbers."""

from __future__ import annotations

import random

import torch.nn.functional as F

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call


def _cross_entropy(rng: random.Random, most: int) -> Call:
    shape = draw.shape(rng, (2, 2, 2, 3, 4), most)
    x = draw.tensor(rng, shape, rng.choice(FLOATS), plain=0.8)
    classes = shape[1]
    ignored = -100 if rng.random() < 0.3 else None
    labels = draw.integers((shape[0], *shape[2:]), 0, classes, mixed=ignored)
    options = {
        "reduction": rng.choice(("mean", "mean", "sum", "none")),
        "label_smoothing": rng.choice((0.0, 0.0, 0.1)),
    }
    return Call("cross_entropy", (x, labels), options)


_CROSS_ENTROPY = Case(
    "cross_entropy", _cross_entropy, F.cross_entropy, depth=lambda call: call.shape()[0]
)
CASES = (_CROSS_ENTROPY, _CROSS_ENTROPY.with_backward(roundings=8))
