"""Losses: cross-entropy and those of pairs of numbers."""

from __future__ import annotations

import dataclasses
import math
import random

import torch.nn.functional as F

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
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
    "cross_entropy",
    _cross_entropy,
    F.cross_entropy,
    depth=lambda call: call.shape()[0],
    scale=lambda *_: 1.0,  # the loss of one class is 0
)


def _nll(rng: random.Random, most: int) -> Call:
    shape = draw.shape(rng, (2, 2, 3, 4), most)
    x = draw.tensor(rng, shape, rng.choice(FLOATS), plain=0.8)
    labels = draw.integers((shape[0], *shape[2:]), 0, shape[1], mixed=-100)
    return Call("nll_loss", (x, labels), {"reduction": rng.choice(("sum", "none"))})


_NLL = Case(
    "nll_loss", _nll, F.nll_loss, depth=lambda call: call.shape()[0], shared=True,
    scale=lambda *_: 1.0,  # scores have both signs here: their sum may be near 0
)  # fmt: skip


def _terms(call: Call) -> int:
    return math.prod(call.shape()) if call.options["reduction"] != "none" else 1


def _pairs(name: str, contents: str | draw.Between = "plain") -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 3, 4), most), rng.choice(FLOATS)
        x = dataclasses.replace(draw.tensor(rng, shape, dtype, plain=0.8), contents=contents)
        target = draw.Tensor(shape, dtype, x.order, contents=draw.Between(0.0, 1.0), grad=False)
        return Call(name, (x, target), {"reduction": rng.choice(("mean", "sum", "none"))})

    return drawn


def _pair_case(name: str, shared: bool = False) -> Case:
    return Case(name, _pairs(name), getattr(F, name), shared=shared, depth=_terms)


_PAIRS = [
    _pair_case("mse_loss"),
    _pair_case("binary_cross_entropy_with_logits", shared=True),
    _pair_case("smooth_l1_loss", shared=True),
]
CASES = (
    _CROSS_ENTROPY,
    _CROSS_ENTROPY.with_backward(roundings=8),
    *_PAIRS,
    *(case.with_backward(roundings=8, shared=True) for case in _PAIRS),
    *(_pair_case(name, shared=True) for name in ("l1_loss", "huber_loss")),
    Case("kl_div", _pairs("kl_div"), F.kl_div, depth=_terms, shared=True),
    Case(
        "binary_cross_entropy",
        _pairs("binary_cross_entropy", draw.Between(0.01, 0.99)),
        F.binary_cross_entropy,
        depth=_terms,
        shared=True,
    ),
    _NLL,
)
