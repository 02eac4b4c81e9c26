"""Attention with 16 queries by one candidate, compared with PyTorch's in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as by_torch

import draw
from candidates import by

HALF, BFLOAT = torch.float16, torch.bfloat16
LIMITS = {HALF: 2e-3, BFLOAT: 8e-3}


def drawn(*shape: int, seed: int, dtype: Any = HALF) -> Any:
    return draw.seeded(seed).normal(*shape).to(dtype)


def close(out: Any, want: Any) -> None:
    assert (out.double() - want).norm() / want.norm() < LIMITS[out.dtype]


def called(
    tile: str,
    query: tuple[int, ...],
    key: tuple[int, ...],
    dtype: torch.dtype,
    options: Mapping[str, Any],
) -> Any:
    """The result of a tile for queries and keys of these shapes."""
    q = drawn(*query, seed=1, dtype=dtype)
    k, v = (drawn(*key, seed=n, dtype=dtype) for n in (2, 3))
    out = by(f"16 queries, {tile}", "attention", q, k, v, enable_gqa=True, **options)
    window, mask = options.get("window"), None
    if window is not None:
        distance = torch.arange(key[2]) - torch.arange(query[2])[:, None]
        mask = (distance >= -window[0]) & (distance <= window[1])
    wide, causal = (x.double() for x in (q, k, v)), options.get("is_causal", False)
    scale = options.get("scale")
    close(out, by_torch(*wide, mask, is_causal=causal, enable_gqa=True, scale=scale))
    return out


def masked(tile: str, kind: str) -> None:
    """Call a tile with a mask, "boolean" or "added" to the scores."""
    q = drawn(2, 2, 3, 64, seed=1)
    k, v = (drawn(2, 2, 100, 64, seed=n) for n in (2, 3))
    mask = drawn(2, 1, 3, 100, seed=4)
    mask = mask > 0 if kind == "boolean" else mask
    out = by(f"16 queries, {tile}", "attention", q, k, v, mask)
    wide = mask if kind == "boolean" else mask.double()
    close(out, by_torch(q.double(), k.double(), v.double(), wide))


def before_infinity(tile: str) -> None:
    """Call a tile with values before infinite ones, which times a weight of zero would be NaN."""
    q = drawn(1, 1, 1, 64, seed=1)
    k, v = (drawn(1, 1, 50, 64, seed=n) for n in (2, 3))
    v[:, :, 33:] = torch.inf
    out = by(f"16 queries, {tile}", "attention", q, k[:, :, :33], v[:, :, :33])
    close(out, by_torch(q.double(), k[:, :, :33].double(), v[:, :, :33].double()))
