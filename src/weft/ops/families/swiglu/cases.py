"""Gated activations: of two tensors, and of the halves of one."""

from __future__ import annotations

import random
from typing import Any

from torch.nn import functional

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call


def _drawn(rng: random.Random, most: int) -> Call:
    shape, dtype = draw.shape(rng, (1, 2, 3), most // 2), rng.choice(FLOATS)
    if rng.random() < 0.5:
        packed = draw.tensor(rng, (*shape[:-1], 2 * shape[-1]), dtype, plain=0.8)
        return Call("swiglu", (packed, None), {})
    return Call("swiglu", tuple(draw.tensor(rng, shape, dtype, plain=0.8) for _ in range(2)), {})


def _by_torch(gate: Any, up: Any) -> Any:
    gate, up = gate.chunk(2, -1) if up is None else (gate, up)
    return functional.silu(gate) * up


_SWIGLU = Case("swiglu", _drawn, _by_torch)
CASES = (_SWIGLU, _SWIGLU.with_backward(roundings=8))
