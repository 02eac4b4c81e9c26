"""Histograms of bytes and of floating-point numbers."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import Case
from weft.ops.sweep.draw import Call


def _histogram(rng: random.Random, most: int) -> Call:
    """Counts of bytes, uniform or skewed, or of floating-point numbers in a range or their own."""
    shape = draw.shape(rng, (1, 1, 2, 3), most)
    if rng.random() < 0.4:
        tensor = draw.tensor(rng, shape, rng.choice(("int32", "uint8", "int64")), plain=0.8)
        contents = rng.choice(("bytes", "skewed"))
        return Call("histogram", (dataclasses.replace(tensor, contents=contents),), {"bins": 256})
    tensor = draw.tensor(rng, shape, rng.choice(("float32", "float32", "float16")), plain=0.8)
    contents = rng.choice(("plain", "plain", "skewed"))
    options: dict[str, Any] = {"bins": rng.choice((10, 64, 100, 256, 1000, 5000))}
    if rng.random() < 0.7:
        options |= {"min": -3.0, "max": 3.0}
    return Call("histogram", (dataclasses.replace(tensor, contents=contents),), options)


def _counted(x: Any, bins: int, min: float = 0.0, max: float = 0.0) -> Any:
    """torch's counts."""
    if not x.is_floating_point():
        return torch.bincount(x.reshape(-1), minlength=bins)
    return torch.histc(x.float(), bins, min, max)  # bins are computed in single precision


PART = 2**24
"""Elements that a float32 can count one by one."""


def _exactly(x: Any, bins: int, min: float = 0.0, max: float = 0.0) -> Any:
    """The same without the limit of float32, at which torch.histc stops to count."""
    if not x.is_floating_point():
        return _counted(x, bins)
    x = x.float().reshape(-1)
    if min == max:
        finite = x[x.isfinite()]
        min, max = float(finite.min()), float(finite.max())
    return sum(torch.histc(part, bins, min, max).double() for part in x.split(PART))


CASES = (Case("histogram", _histogram, _counted, reference=_exactly, exact=True),)
