"""What each op of the library is called with, and torch's own way to compute the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.draw import Call

FLOATS = ("float32", "float16", "bfloat16")
Draw = Callable[[random.Random, int], Call]


@dataclass(frozen=True)
class Case:
    """One op.

    draw   a call from a random generator, with at most so many elements in a tensor
    torch  the same by torch: (tensors, options) -> result
    exact  must the result be equal, as for copies and indices?
    depth  how many terms a result sums up: its error may grow with it
    """

    op: str
    draw: Draw
    torch: Callable[..., Any]
    exact: bool = False
    depth: Callable[[Call], int] = lambda call: 1


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


def _rows(name: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape, dtype = draw.shape(rng, (1, 2, 2, 3), most), rng.choice(FLOATS)
        dim = -1 if rng.random() < 0.7 else rng.randrange(len(shape))
        return Call(name, (draw.tensor(rng, shape, dtype),), {"dim": dim})

    return drawn


def _matmul(rng: random.Random, most: int) -> Call:
    """Sizes with a bounded number of products; a batch in one of five calls."""
    edge = max(2, round(most ** (1 / 2)))
    work = most ** (3 / 2)
    least = 1 if rng.random() < 0.35 else max(1, round(edge**0.5))
    m, n, k = (max(least, draw.size(rng, edge)) for _ in range(3))
    while m * n * k > work:
        m, n, k = max(1, m // 2), max(1, n // 2), max(1, k // 2)
    lead: tuple[int, ...] = ()
    if rng.random() < 0.2:
        lead = (draw.size(rng, max(1, min(256, round(work / (m * n * k))))),)
    a = draw.tensor(rng, (*lead, m, k), "float32")
    b = draw.tensor(rng, (*(lead if rng.random() < 0.5 else ()), k, n), "float32")
    return Call("matmul", (a, b), {})


def _length(call: Call) -> int:
    tensor = call.tensors[0]
    return tensor.shape[call.options.get("dim", -1)] if tensor.shape else 1


CASES: Sequence[Case] = (
    Case("add", _elementwise("add", 2), lambda a, b: a + b),
    Case("mul", _elementwise("mul", 2), lambda a, b: a * b),
    Case("fma", _elementwise("fma", 3), lambda a, b, c: a * b + c),
    Case("softmax", _rows("softmax"), lambda x, dim: torch.softmax(x, dim)),
    Case("log_softmax", _rows("log_softmax"), lambda x, dim: torch.log_softmax(x, dim)),
    Case("matmul", _matmul, torch.matmul, depth=lambda call: call.tensors[0].shape[-1]),
)
