"""Scans along a dimension."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import torch

from weft.ops.families.scan.op import reference
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case, Draw, sums, terms
from weft.ops.sweep.draw import Call


def _scanned(name: str, contents: str = "plain", **extra: Sequence[Any]) -> Draw:
    """Scans of floating-point numbers or integers; each extra option is one of its values."""

    def drawn(rng: random.Random, most: int) -> Call:
        shape = draw.shape(rng, (1, 2, 2, 3), most)
        dtype = rng.choice((*FLOATS, "float32", "int32", "int64"))
        dim = len(shape) - 1 if rng.random() < 0.6 else rng.randrange(len(shape))
        options = {"dim": dim, **{k: rng.choice(v) for k, v in extra.items()}}
        tensor = draw.tensor(rng, shape, dtype)
        return Call(name, (dataclasses.replace(tensor, contents=contents),), options)

    return drawn


CASES = (
    Case("cumsum", _scanned("cumsum"), torch.cumsum, depth=terms, scale=sums),
    Case("cumprod", _scanned("cumprod", "near one"), torch.cumprod, depth=terms, shared=True),
    Case("cummax", _scanned("cummax"), lambda x, dim: torch.cummax(x, dim)[0], exact=True),
    Case(
        "scan",
        _scanned("scan", op=("sum", "max"), exclusive=(True, False), reverse=(True, False)),
        reference,
        depth=terms,
        scale=sums,
        shared=True,
    ),
)
