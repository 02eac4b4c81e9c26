"""Attention: models' heads and odd ones, one query or many, shared heads, fused projections."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call, Tensor

HEADS = (64, 128, 96, 32, 80, 40, 256)


def _attention(rng: random.Random, most: int) -> Call:
    """A call whose scores are at most `most` ** 1.25; queries may be few, and heads shared."""
    dtype = rng.choice(("bfloat16", "float16", *FLOATS))
    depth = rng.choice(HEADS) if rng.random() < 0.8 else draw.size(rng, 256)
    depth = min(depth, max(1, most // 32))
    rows, keys = (draw.size(rng, max(2, min(16384, most // 16))) for _ in range(2))
    if rng.random() < 0.3:
        rows = rng.choice((1, 2, 7))
    elif rng.random() < 0.6:
        rows = keys
    while rows * keys > most**1.25 or max(rows, keys) * depth > most:
        rows, keys = max(1, rows // 2), max(1, keys // 2)
        depth = min(depth, max(1, most // max(rows, keys)))
    room = min(most / (max(rows, keys) * depth), most**1.25 / (rows * keys))
    heads = draw.size(rng, max(1, min(32, int(room))))
    batch = draw.size(rng, max(1, min(16, int(room / heads))))
    group = rng.choice((1, 1, 2, 4))
    order = (0, 1, 2, 3) if rng.random() < 0.5 else (0, 2, 1, 3)
    few = (heads + group - 1) // group
    # Few tensors are misaligned: PyTorch's kernels may fail then, which costs a process.
    tensors = [
        Tensor((batch, h, n, depth), dtype, order, offset=rng.choice((0,) * 40 + (8,) * 12 + (1,)))
        for h, n in ((few * group, rows), (few, keys), (few, keys))
    ]
    options = {"is_causal": rng.random() < 0.5 and rows > 1, "enable_gqa": group > 1}
    return Call("attention", tuple(tensors), options)


SCORES = 2**27
"""Scores of the reference at a time: in float64, torch would keep all, which may need 100 GB."""


def reference(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, enable_gqa: bool = False
) -> Any:
    """The same, some heads at a time, or with a mask some elements of the batch."""
    shape, group = (*q.shape[:3], v.shape[3]), q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    if mask is None:
        q, k, v = (t.flatten(0, 1)[:, None] for t in (q, k, v))
    count = max(1, SCORES // (q.shape[1] * q.shape[2] * k.shape[2]))
    parts = [
        checkpoint(
            F.scaled_dot_product_attention, *part, attn_mask=mask, is_causal=is_causal,
            use_reentrant=False,
        )
        for part in zip(*(t.split(count) for t in (q, k, v)), strict=True)
    ]  # fmt: skip
    return torch.cat(parts).view(shape)


CASE = Case(
    "attention", _attention, F.scaled_dot_product_attention, reference=reference, roundings=6,
    depth=lambda call: call.shape(1)[-2],
)  # fmt: skip
CASES = (
    CASE,
    CASE.with_backward(
        roundings=12,
        shared=True,
        depth=lambda call: max(call.shape(0)[-2], call.shape(1)[-2]),
        scale=lambda *_: 1.0,  # with one key, the gradients of queries and keys are 0
    ),
)
