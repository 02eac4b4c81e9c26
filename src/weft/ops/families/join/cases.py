"""Joined tensors: two to eight, along any dimension."""

from __future__ import annotations

import random
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

COUNTS = (2, 2, 2, 3, 4, 8)
ANY = (*FLOATS, "int64", "uint8")


def _cat(rng: random.Random, most: int) -> Call:
    """Tensors whose sizes along the dimension differ, as those of skip connections."""
    count, dtype = rng.choice(COUNTS), rng.choice(ANY)
    shape = draw.shape(rng, (1, 2, 3, 4), max(1, most // count))
    dim = rng.randrange(len(shape))
    sizes = [shape[dim] if rng.random() < 0.5 else draw.size(rng, shape[dim]) for _ in range(count)]
    shapes = [tuple(n if d == dim else s for d, s in enumerate(shape)) for n in sizes]
    return Call("cat", tuple(draw.tensor(rng, s, dtype, plain=0.8) for s in shapes), {"dim": dim})


def _stack(rng: random.Random, most: int) -> Call:
    count, dtype = rng.choice(COUNTS), rng.choice(ANY)
    shape = draw.shape(rng, (1, 2, 3), max(1, most // count))
    tensors = tuple(draw.tensor(rng, shape, dtype, plain=0.8) for _ in range(count))
    return Call("stack", tensors, {"dim": rng.randrange(len(shape) + 1)})


def _list(name: str, function: Any) -> Any:
    """The function of a list for tensors one by one."""
    return lambda *tensors, dim: (function or library.call(name))(tensors, dim)


CASES = (
    Case("cat", _cat, _list("cat", torch.cat), exact=True, weft=_list("cat", None)),
    Case("stack", _stack, _list("stack", torch.stack), exact=True, weft=_list("stack", None)),
)
