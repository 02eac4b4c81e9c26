"""Activations, forward and backward."""

from __future__ import annotations

import random

import torch
from torch.nn import functional

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Call


def _drawn(name: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        x = draw.tensor(rng, draw.shape(rng, (1, 2, 3, 4), most), rng.choice(FLOATS))
        options = {"approximate": rng.choice(("none", "tanh"))} if name == "gelu" else {}
        return Call(name, (x,), options)

    return drawn


_GELU = Case("gelu", _drawn("gelu"), functional.gelu)
_SILU = Case("silu", _drawn("silu"), functional.silu, shared=True)
_LEAKY = Case("leaky_relu", _drawn("leaky_relu"), functional.leaky_relu, shared=True)
_SOFTPLUS = Case("softplus", _drawn("softplus"), functional.softplus, shared=True)
_OTHERS = (
    "relu6", "hardtanh", "sigmoid", "logsigmoid", "hardsigmoid", "softsign", "hardswish", "mish",
    "elu", "celu", "selu",
)  # fmt: skip
CASES = (
    Case("relu", _drawn("relu"), torch.relu, exact=True, shared=True),
    _GELU, _GELU.with_backward(roundings=8), _SILU, _SILU.with_backward(roundings=8),
    _LEAKY, _LEAKY.with_backward(), _SOFTPLUS, _SOFTPLUS.with_backward(roundings=8),
    *(Case(name, _drawn(name), getattr(functional, name), shared=True) for name in _OTHERS),
)  # fmt: skip
