"""Matrix products: square, skinny, short, batched."""

from __future__ import annotations

import random

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import Case
from weft.ops.sweep.draw import Call


def drawn(rng: random.Random, most: int) -> Call:
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


CASES = (Case("matmul", drawn, torch.matmul, depth=lambda call: call.shape()[-1]),)
