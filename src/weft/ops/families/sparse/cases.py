"""Linear layers with 2:4 sparse weights."""

from __future__ import annotations

import random
from typing import Any

from torch.nn import functional as F

from weft.kernels import cdiv
from weft.ops.sweep import draw
from weft.ops.sweep.case import Case
from weft.ops.sweep.draw import Call

FIRST_TWO = 0x44444444
"""A word of metadata that keeps the first two of each four."""


def _drawn(rng: random.Random, most: int) -> Call:
    dtype = rng.choice(("float16", "bfloat16"))
    k = 16 * rng.choice((1, 2, 4, 5, 16, 37, 64, 256, 512))
    rows = max(1, min(rng.choice((1, 7, 32, 129, 1024, 4096)), most // k))
    features = max(1, min(rng.choice((8, 61, 256, 1000, 4096, 14336)), 2 * most // k))
    x = draw.tensor(rng, (rows, k), dtype, plain=0.8)
    values = draw.Tensor((features, k // 2), dtype, (0, 1))
    shape = (cdiv(features, 64), cdiv(k, 64), 128)
    words = draw.Between(FIRST_TWO, FIRST_TWO + 1)
    metadata = draw.Tensor(shape, "int32", (0, 1, 2), contents=words, grad=False)
    return Call("sparse_linear", (x, values, metadata), {})


def _by_torch(x: Any, values: Any, metadata: Any) -> Any:
    """The product with the whole weight."""
    fours = F.pad(values.reshape(values.shape[0], -1, 2), (0, 2))
    return F.linear(x, fours.reshape(values.shape[0], -1))


_LINEAR = Case("sparse_linear", _drawn, _by_torch, depth=lambda call: call.shape()[-1])
CASES = (
    _LINEAR,
    _LINEAR.with_backward(depth=lambda call: max(call.shape()), roundings=8),
)
