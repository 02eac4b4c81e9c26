"""Tokens of random logits: they are checked to be among the most probable ones."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

VOCABULARIES = (256, 32000, 50257, 128256, 151936)
"""Tokens: bytes, Llama 2, GPT-2, Llama 3 and Qwen."""
KEPT = 40
"""Tokens that are drawn from."""


SETTINGS = (
    ("float32", draw.Between(0.5, 1.5)),
    ("int32", draw.Between(KEPT, KEPT + 1)),
    ("float32", draw.Between(0.9, 1.0)),
    ("int64", draw.Between(0, 1000)),
    ("int32", draw.Between(0, 1000)),
)
"""Dtypes and contents of temperature, top_k, top_p, seed and position."""


def _logits(greedy: bool, rng: random.Random, most: int) -> Call:
    """Rows of a public model's vocabulary; settings for each row, or for all."""
    tokens = rng.choice([n for n in VOCABULARIES if n <= most] or [most])
    rows = rng.randint(1, max(1, min(64, most // tokens)))
    logits = draw.Tensor((rows, tokens), rng.choice(FLOATS), (0, 1))
    count = rng.choice((1, rows))
    drawn = [*SETTINGS]
    if greedy:
        drawn[0] = ("float32", draw.Between(0.0, 0.0))
    settings = (draw.Tensor((count,), dtype, (0,), contents=c) for dtype, c in drawn)
    return Call("sample", (logits, *settings), {})


def _among(count: int, got: torch.Tensor, logits: torch.Tensor, *settings: Any) -> float:
    """0 if each token is among so many of the most probable ones of its row, else infinite."""
    if int(got.min()) < 0 or int(got.max()) >= logits.shape[1]:
        return math.inf
    least = logits.topk(min(count, logits.shape[1]), -1).values[:, -1:]
    return 0.0 if bool((logits.gather(1, got[:, None]) >= least).all()) else math.inf


def _by_torch(logits: Any, temperature: Any, *settings: Any) -> Any:
    """The same without a limit of probabilities."""
    values, places = logits.float().topk(min(KEPT, logits.shape[1]), -1)
    values = values / temperature.view(-1, 1)
    return places.gather(1, torch.multinomial(values.softmax(-1), 1))[:, 0]


CASES = (
    Case(
        "sample",
        functools.partial(_logits, False),
        _by_torch,
        judge=functools.partial(_among, KEPT),
    ),
    Case(
        "sample greedy",
        functools.partial(_logits, True),
        lambda logits, *settings: logits.argmax(-1),
        judge=functools.partial(_among, 1),
        shared=True,
    ),
)
