"""Rows and groups to quantise: of activations, and of any shape."""

from __future__ import annotations

import random
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

GROUPS = (32, 64, 128)


def _drawn(rng: random.Random, most: int) -> Call:
    dtype, group = rng.choice(FLOATS), rng.choice((None, None, *GROUPS))
    shape = draw.shape(rng, (1, 2, 3), most // (group or 1))
    if group is not None:
        shape = (*shape[:-1], shape[-1] * group)
    return Call("quantise", (draw.tensor(rng, shape, dtype, plain=0.8),), {"group": group})


def _by_weft(x: Any, group: int | None) -> Any:
    return library.call("quantise")(x, torch.int8, group)


def _by_torch(x: Any, group: int | None) -> Any:
    parts = x.float().unflatten(-1, (-1, group or x.shape[-1]))
    most = parts.abs().amax(-1, keepdim=True)
    scale = torch.where(most == 0, 1.0, most / 127)
    return (parts / scale).round().to(torch.int8).view(x.shape), scale.squeeze(-1)


def _judged(result: Any, x: Any) -> float:
    """The largest error, in units of half a step and its rounding."""
    q, scale = result
    each = scale.double().repeat_interleave(x.shape[-1] // scale.shape[-1], -1)
    return float(((q.double() * each - x.double()).abs() / (0.501 * each)).max())


CASES = (Case("quantise", _drawn, _by_torch, weft=_by_weft, judge=_judged),)
