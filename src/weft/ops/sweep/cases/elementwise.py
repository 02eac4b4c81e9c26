"""Elementwise ops, with operands of equal shapes and broadcast ones."""

from __future__ import annotations

import random

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw
from weft.ops.sweep.draw import Call


def _elementwise(name: str, operands: int) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 3, 4), most), rng.choice(FLOATS)
        shapes = [shape]
        for _ in range(operands - 1):
            way = rng.random()
            if way < 0.7:
                shapes.append(shape)
            elif way < 0.85:
                shapes.append(shape[-1:])
            else:
                shapes.append(tuple(1 if rng.random() < 0.5 else s for s in shape))
        return Call(name, tuple(draw.tensor(rng, s, dtype) for s in shapes), {})

    return drawn


CASES = (
    Case("add", _elementwise("add", 2), lambda a, b: a + b),
    Case("mul", _elementwise("mul", 2), lambda a, b: a * b, shared=True),
    Case("fma", _elementwise("fma", 3), lambda a, b, c: a * b + c),
    Case("div", _elementwise("div", 2), lambda a, b: a / b),
    Case("maximum", _elementwise("maximum", 2), torch.maximum, exact=True),
    Case("less", _elementwise("less", 2), torch.less, exact=True),
    Case("exp", _elementwise("exp", 1), torch.exp),
    Case("tanh", _elementwise("tanh", 1), torch.tanh),
)
