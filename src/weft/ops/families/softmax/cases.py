"""Ops that normalise along a dimension: softmax and its logarithm."""

from __future__ import annotations

import random

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Call


def _rows(name: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 2, 3), most), rng.choice(FLOATS)
        dim = -1 if rng.random() < 0.7 else rng.randrange(len(shape))
        return Call(name, (draw.tensor(rng, shape, dtype),), {"dim": dim})

    return drawn


CASES = (
    Case("softmax", _rows("softmax"), lambda x, dim: torch.softmax(x, dim)),
    Case("log_softmax", _rows("log_softmax"), lambda x, dim: torch.log_softmax(x, dim)),
)
