"""Attention in float64, as tests of its kernels expect it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from weft.ops.core.choose import Request


def exact(
    tensors: Sequence[Any], causal: bool, scale: float | None = None, added: Any = None
) -> tuple[Any, Any]:
    """The result of query, key and value, and the logarithms of the sums.

    added  to the scores
    """
    q, k, v = (x.double() for x in tensors)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    if added is not None:
        scores = scores + added.double()
    return scores.softmax(-1).nan_to_num(0.0) @ v, scores.logsumexp(-1)


def on(request: Request, sms: int) -> Request:
    """The request to a GPU of so many SMs."""
    return dataclasses.replace(request, target=dataclasses.replace(request.target, sms=sms))
