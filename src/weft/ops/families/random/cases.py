"""Random numbers: their range, mean and variance are checked, as no two libraries draw the same.

The first tensor of a call says the shape and the dtype.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Call

ERRORS = 6.0
"""Standard errors that a mean or a variance may be off: fewer than one call in 10^8 is."""
KEEP = 0.75
"""The part that dropout keeps."""


def _like(name: str, contents: str | draw.Between = "plain") -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 3), most), rng.choice(FLOATS)
        tensor = draw.Tensor(shape, dtype, tuple(range(len(shape))), contents=contents)
        return Call(name, (tensor,), {})

    return drawn


def _length(rng: random.Random, most: int) -> Call:
    return Call("randperm", (draw.Tensor((draw.size(rng, most),), "int64", (0,)),), {})


def _moments(x: torch.Tensor, mean: float, deviation: float) -> float:
    """The error of mean and variance, in units of what chance and rounding allow."""
    n, wide = x.numel(), x.double()
    rounding = deviation * float(torch.finfo(x.dtype).eps)
    allowed = ERRORS * deviation / math.sqrt(n) + rounding
    errors = [abs(float(wide.mean()) - mean) / allowed]
    if n >= 100:  # the variance of fewer is not nearly normal
        variance, scale = float(wide.var()), deviation * deviation
        errors.append(abs(variance - scale) / (ERRORS * scale * math.sqrt(2 / n) + rounding))
    return max(errors)


def _uniform(low: float, high: float) -> Callable[..., float]:
    def judge(got: torch.Tensor, *tensors: torch.Tensor) -> float:
        if float(got.min()) < low or float(got.max()) > high:
            return math.inf
        return _moments(got, (low + high) / 2, (high - low) / math.sqrt(12))

    return judge


def _normal(mean: float, deviation: float) -> Callable[..., float]:
    return lambda got, *tensors: _moments(got, mean, deviation)


def _ones(got: torch.Tensor, p: torch.Tensor) -> float:
    """Zeros and ones; each is one with its own probability."""
    if not bool(((got == 0) | (got == 1)).all()):
        return math.inf
    wide, chance = got.double(), p.double()
    deviation = math.sqrt(float((chance * (1 - chance)).sum()))
    return abs(float((wide - chance).sum())) / (ERRORS * max(1.0, deviation))


def _permutation(got: torch.Tensor, x: torch.Tensor) -> float:
    numbers = torch.arange(x.numel(), device=x.device)
    return 0.0 if torch.equal(got.sort().values, numbers) else math.inf


def _dropped(got: torch.Tensor, x: torch.Tensor) -> float:
    """Kept elements are scaled; as many are kept as chance allows."""
    kept = got != 0
    scaled = (x.double() / KEEP).to(x.dtype)
    rounding = torch.finfo(x.dtype).eps
    if not torch.allclose(got[kept].double(), scaled[kept].double(), rtol=rounding, atol=0):
        return math.inf
    count, n = int(kept.sum()), int((x != 0).sum())
    deviation = math.sqrt(max(1.0, n * KEEP * (1 - KEEP)))
    return abs(count - n * KEEP) / (ERRORS * deviation)


def _case(
    name: str, torch_call: Callable[..., Any], weft_call: Callable[..., Any],
    judge: Callable[..., float], drawn: Draw | None = None,
) -> Case:  # fmt: skip
    return Case(name, drawn or _like(name), torch_call, weft=weft_call, judge=judge, shared=True)


CASES = (
    _case(
        "rand", lambda x: torch.rand(x.shape, dtype=x.dtype, device=x.device),
        lambda x: library.call("rand")(x.shape, dtype=x.dtype, device=x.device),
        _uniform(0.0, 1.0),
    ),
    _case(
        "randn", lambda x: torch.randn(x.shape, dtype=x.dtype, device=x.device),
        lambda x: library.call("randn")(x.shape, dtype=x.dtype, device=x.device),
        _normal(0.0, 1.0),
    ),
    _case(
        "uniform", lambda x: torch.empty_like(x).uniform_(-2.0, 6.0),
        lambda x: library.call("uniform")(x.shape, -2.0, 6.0, dtype=x.dtype, device=x.device),
        _uniform(-2.0, 6.0),
    ),
    _case(
        "normal", lambda x: torch.empty_like(x).normal_(0.5, 2.0),
        lambda x: library.call("normal")(0.5, 2.0, x.shape, dtype=x.dtype, device=x.device),
        _normal(0.5, 2.0),
    ),
    _case(
        "bernoulli", torch.bernoulli, lambda p: library.call("bernoulli")(p), _ones,
        _like("bernoulli", draw.Between(0.0, 1.0)),
    ),
    _case(
        "randperm", lambda x: torch.randperm(x.numel(), device=x.device),
        lambda x: library.call("randperm")(x.numel(), device=x.device), _permutation, _length,
    ),
    _case(
        "dropout", lambda x: functional.dropout(x, 1 - KEEP),
        lambda x: library.call("dropout")(x, 1 - KEEP), _dropped,
    ),
)  # fmt: skip
