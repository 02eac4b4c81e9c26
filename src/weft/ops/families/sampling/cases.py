"""Tokens of random logits: they are checked to be among the most probable ones."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

VOCABULARIES = (256, 32000, 50257, 128256, 151936)
"""Tokens: bytes, Llama 2, GPT-2, Llama 3 and Qwen."""
KEPT = 40
"""Tokens that are drawn from."""


def _logits(rng: random.Random, most: int) -> Call:
    """Rows of a public model's vocabulary."""
    tokens = rng.choice([n for n in VOCABULARIES if n <= most] or [most])
    shape = (rng.randint(1, max(1, min(64, most // tokens))), tokens)
    return Call("sample", (draw.Tensor(shape, rng.choice(FLOATS), (0, 1)),), {})


@functools.cache
def _settings(temperature: float, device: torch.device) -> tuple[Any, ...]:
    """The arguments after the logits, for all rows."""
    numbers = ((temperature, "float32"), (KEPT, "int32"), (1.0, "float32"), (1, "int64"))
    made = [torch.tensor([n], dtype=getattr(torch, d), device=device) for n, d in numbers]
    return *made, torch.zeros(1, dtype=torch.int32, device=device)


def _drawn(temperature: float, logits: Any) -> Any:
    return library.call("sample")(logits, *_settings(temperature, logits.device))


def _among(count: int, got: torch.Tensor, logits: torch.Tensor) -> float:
    """0 if each token is among so many of the most probable ones of its row, else infinite."""
    if int(got.min()) < 0 or int(got.max()) >= logits.shape[1]:
        return math.inf
    least = logits.topk(min(count, logits.shape[1]), -1).values[:, -1:]
    return 0.0 if bool((logits.gather(1, got[:, None]) >= least).all()) else math.inf


def _by_torch(logits: Any) -> Any:
    values, places = logits.float().topk(min(KEPT, logits.shape[1]), -1)
    return places.gather(1, torch.multinomial(values.softmax(-1), 1))[:, 0]


CASES = (
    Case(
        "sample", _logits, _by_torch,
        weft=functools.partial(_drawn, 1.0), judge=functools.partial(_among, KEPT),
    ),
    Case(
        "sample greedy", _logits, lambda logits: logits.argmax(-1),
        weft=functools.partial(_drawn, 0.0), judge=functools.partial(_among, 1),
    ),
)  # fmt: skip
