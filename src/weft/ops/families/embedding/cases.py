"""Embeddings: few and many rows, with and without a gradient."""

from __future__ import annotations

import random

import torch.nn.functional as F

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call


def _embedding(rng: random.Random, most: int) -> Call:
    columns = draw.size(rng, min(most, 4096))
    rows = draw.size(rng, max(1, most // columns))
    shape = draw.shape(rng, (1, 2), max(1, most // columns))
    weight = draw.tensor(rng, (rows, columns), rng.choice(FLOATS), plain=0.9)
    return Call("embedding", (draw.integers(shape, 0, rows), weight), {})


_EMBEDDING = Case("embedding", _embedding, F.embedding, exact=True)
CASES = (
    _EMBEDDING,
    _EMBEDDING.with_backward(exact=False, depth=lambda call: call.shape()[0], roundings=8),
)
