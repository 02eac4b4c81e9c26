"""Rows and groups to quantise, and rows that are quantised and multiplied."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch.nn import functional

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

GROUPS = (32, 64, 128)


def _drawn(rng: random.Random, most: int) -> Call:
    dtype, group = rng.choice(FLOATS), rng.choice((None, None, *GROUPS))
    shape = draw.shape(rng, (1, 2, 3), most // (group or 1))
    if group is not None:
        shape = (*shape[:-1], shape[-1] * group)
    return Call("quantise", (draw.tensor(rng, shape, dtype, plain=0.8),), {"group": group})


def _by_weft(x: Any, group: int | None) -> Any:
    return library.call("quantise")(x, torch.int8, group)


def _by_torch(x: Any, group: int | None) -> Any:
    parts = x.float().unflatten(-1, (-1, group or x.shape[-1]))
    most = parts.abs().amax(-1, keepdim=True)
    scale = torch.where(most == 0, 1.0, most / 127)
    return (parts / scale).round().to(torch.int8).view(x.shape), scale.squeeze(-1)


def _judged(result: Any, x: Any) -> float:
    """The largest error, in units of half a step and its rounding."""
    q, scale = result
    each = scale.double().repeat_interleave(x.shape[-1] // scale.shape[-1], -1)
    return float(((q.double() * each - x.double()).abs() / (0.501 * each)).max())


def _linear(rng: random.Random, most: int) -> Call:
    m, n, k = (draw.size(rng, max(2, round(most**0.5))) for _ in range(3))
    x = draw.tensor(rng, (m, k), rng.choice(FLOATS), plain=0.8)
    weight = draw.Tensor((n, k), "int8", (0, 1), contents=draw.Between(-127, 128))
    scale = draw.Tensor((n, 1), "float32", (0, 1), contents=draw.Between(0.005, 0.02))
    return Call("linear_int8", (x, weight, scale), {})


def _linear_by_torch(x: Any, weight: Any, scale: Any) -> Any:
    return functional.linear(x, (weight.float() * scale).to(x.dtype))


def _linear_judged(result: Any, x: Any, weight: Any, scale: Any) -> float:
    """The error beside the product of rows that are not quantised, of which each has 1 % or so."""
    exact = x.double() @ (weight.double() * scale.double()).T
    # Terms may cancel: they are as large as those of their magnitudes' product.
    terms = x.double().norm(dim=1, keepdim=True) * (weight.double() * scale.double()).norm(dim=1)
    return float((result.double() - exact).norm() / (0.03 * terms.norm() + 1e-30))


CASES = (
    Case("quantise", _drawn, _by_torch, weft=_by_weft, judge=_judged),
    Case("linear_int8", _linear, _linear_by_torch, judge=_linear_judged),
)
