"""The loss of a linear layer: random sizes, and last layers of language models."""

from __future__ import annotations

import random
from typing import Any

import torch.nn.functional as F

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call, Tensor

LAYERS = ((8192, 768, 50257), (4096, 2048, 128256))
"""Rows, hidden size and vocabulary: GPT-2 and Llama 3.2 1B."""


def _drawn(rng: random.Random, most: int) -> Call:
    known = [layer for layer in LAYERS if layer[0] * layer[2] <= most]
    if known and rng.random() < 0.2:
        rows, hidden, classes = rng.choice(known)
        dtype = rng.choice(("bfloat16", "float16"))
    else:
        hidden, dtype = draw.size(rng, max(1, min(1024, most // 16))), rng.choice(FLOATS)
        classes = draw.size(rng, max(1, most // max(hidden, 16)))
        rows = draw.size(rng, max(1, most // max(hidden, classes)))
    x = draw.tensor(rng, (rows, hidden), dtype, plain=0.8)
    weight = Tensor((classes, hidden), dtype, (0, 1))
    labels = draw.integers((rows,), 0, classes, mixed=-100 if rng.random() < 0.3 else None)
    options = {
        "reduction": rng.choice(("mean", "mean", "sum")),
        "label_smoothing": rng.choice((0.0, 0.0, 0.1)),
    }
    return Call("linear_cross_entropy", (x, weight, labels), options)


def _by_torch(x: Any, weight: Any, labels: Any, **options: Any) -> Any:
    return F.cross_entropy(F.linear(x, weight), labels, **options)


def _by_weft(x: Any, weight: Any, labels: Any, **options: Any) -> Any:
    """The loss in the dtype of the logits, whose roundings the tolerance counts."""
    return library.call("linear_cross_entropy")(x, weight, labels, **options).to(x.dtype)


def _magnitude(x: Any, weight: Any, labels: Any, call: Call) -> float:
    """Errors are those of logits, which are sums over the hidden size."""
    return float(x.shape[1] ** 0.5) * (x.shape[0] if call.options["reduction"] == "sum" else 1)


_LOSS = Case(
    "linear_cross_entropy",
    _drawn,
    _by_torch,
    weft=_by_weft,
    depth=lambda call: call.shape()[1],
    scale=_magnitude,
    roundings=8,
)
CASES = (_LOSS, _LOSS.with_backward(roundings=32))
