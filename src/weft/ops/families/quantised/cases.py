"""Linear layers with weights of four and eight bits: few tokens and many, all kinds of groups."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Between, Call, Tensor

FORMATS = (
    ("uint8", Between(0, 256)),
    ("int8", Between(-128, 128)),
    ("float8_e4m3fn", "plain"),
    ("float8_e5m2", "plain"),
)
GROUPS = (32, 64, 96, 128, 256)


def _drawn(rng: random.Random, most: int) -> Call:
    """One to eight tokens in half of the calls; scales of groups, of rows or of all."""
    rows = rng.randint(1, 8) if rng.random() < 0.5 else draw.size(rng, max(1, most // 64))
    edge = max(2, round((most / rows) ** 0.5))
    outer, inner, groups = draw.size(rng, edge), draw.size(rng, edge), 1
    word, contents = rng.choice(FORMATS)
    if rng.random() < 0.7:
        group = rng.choice(GROUPS)
        groups = max(1, inner // group)
        inner = groups * group
    elif word == "uint8":
        inner += inner % 2
    dtype = rng.choice(FLOATS)
    kind = rng.choice((dtype, "float32"))
    shape = (1, 1) if groups == 1 and rng.random() < 0.3 else (outer, groups)
    columns = inner // 2 if word == "uint8" else inner
    weight = Tensor((outer, columns), word, (0, 1), contents=contents, grad=False)
    scale = Tensor(shape, kind, (0, 1), contents=Between(0.5, 1.5), grad=False)
    zero = Tensor(shape, kind, (0, 1), grad=False) if rng.random() < 0.4 else None
    bias = draw.tensor(rng, (outer,), dtype) if rng.random() < 0.5 else None
    x = draw.tensor(rng, (rows, inner), dtype, plain=0.8)
    return Call("linear_quantised", (x, weight, scale, zero, bias), {})


def _by_torch(x: Any, weight: Any, scale: Any, zero: Any, bias: Any) -> Any:
    """The weight in the dtype of x, and a product."""
    q = weight
    if weight.dtype is torch.uint8:
        q = torch.stack((weight & 15, weight >> 4), -1).flatten(1).char() - 8
    parts = q.to(x.dtype).unflatten(1, (scale.shape[1], -1))
    if zero is not None:
        parts = parts - zero.to(x.dtype)[..., None]
    return F.linear(x, (parts * scale.to(x.dtype)[..., None]).flatten(1), bias)


_CASE = Case(
    "linear_quantised", _drawn, _by_torch, depth=lambda call: call.shape()[-1], roundings=8
)
CASES = (_CASE, _CASE.with_backward(depth=lambda call: max(call.shape(1)), shared=True))
