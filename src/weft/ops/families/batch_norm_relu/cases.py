"""Batch norm with ReLU, with and without a residual, in training."""

from __future__ import annotations

import random
from typing import Any

from torch.nn import functional

from weft.ops.core import library
from weft.ops.families.norm.cases import drawn_images, drawn_weights
from weft.ops.sweep.case import Case
from weft.ops.sweep.draw import Call


def _drawn(rng: random.Random, most: int) -> Call:
    x = drawn_images(rng, most)
    residual = x if rng.random() < 0.5 else None
    weights = drawn_weights(rng, x.shape[1:2], x.dtype, 2, mixed=True)
    return Call("batch_norm_relu", (x, *weights, residual), {})


def _by_torch(x: Any, w: Any, b: Any, residual: Any) -> Any:
    y = functional.batch_norm(x, None, None, w, b, True)
    return functional.relu(y if residual is None else y + residual)


def _by_weft(x: Any, w: Any, b: Any, residual: Any) -> Any:
    return library.call("batch_norm_relu")(x, None, None, w, b, residual, True)


_CASE = Case(
    "batch_norm_relu", _drawn, _by_torch, weft=_by_weft, depth=lambda call: max(call.shape()),
    scale=lambda *_: 1.0,
)  # fmt: skip
CASES = (_CASE, _CASE.with_backward(roundings=16, shared=True))
