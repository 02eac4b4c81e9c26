"""Rotary embeddings: queries and keys, and packed ones."""

from __future__ import annotations

import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call, Tensor

SIZES = (32, 64, 80, 96, 128)
"""Elements of a head."""


def _sizes(rng: random.Random, most: int) -> tuple[int, int, int, int]:
    """(batch, heads, positions, size)."""
    size, heads = rng.choice(SIZES), rng.choice((1, 2, 4, 8, 12, 32))
    room = max(1, most // (size * heads * 3))
    positions = draw.size(rng, room)
    return max(1, min(8, room // positions)), heads, positions, size


def _angles(positions: int, size: int, dtype: str) -> tuple[Tensor, Tensor]:
    shape = (positions, size // 2)
    made = Tensor(shape, dtype, (0, 1), contents=draw.Between(-1.0, 1.0), grad=False)
    return made, made


def _pairs(rng: random.Random, most: int) -> Call:
    batch, heads, positions, size = _sizes(rng, most)
    dtype = rng.choice(FLOATS)
    order = rng.choice(((0, 1, 2, 3), (0, 2, 1, 3)))
    shapes = ((batch, n, positions, size) for n in (heads, rng.choice((heads, 1))))
    tensors = (Tensor(shape, dtype, order) for shape in shapes)
    angles = _angles(positions, size, rng.choice((dtype, "float32")))
    return Call("rotary", (*tensors, *angles), {"interleaved": rng.random() < 0.5})


def _packed(rng: random.Random, most: int) -> Call:
    batch, heads, positions, size = _sizes(rng, most)
    dtype, others = rng.choice(FLOATS), rng.choice((heads, 1))
    qkv = Tensor((batch, positions, (heads + 2 * others) * size), dtype, (0, 1, 2))
    options = {"heads": heads, "kv_heads": others, "interleaved": rng.random() < 0.5}
    return Call("rotary_qkv", (qkv, *_angles(positions, size, "float32")), options)


def _turned(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    c, s = (t.to(x.dtype) for t in (cos, sin))
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    left, right = a * c - b * s, b * c + a * s
    return (
        torch.stack((left, right), -1).flatten(-2) if interleaved else torch.cat((left, right), -1)
    )


def _by_torch(q: Any, k: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    return _turned(q, cos, sin, interleaved), _turned(k, cos, sin, interleaved)


def _packed_by_torch(
    qkv: Any, cos: Any, sin: Any, heads: int, kv_heads: int, interleaved: bool
) -> Any:
    batch, positions, width = qkv.shape
    counts = [heads, kv_heads, kv_heads]
    size = width // sum(counts)
    parts = qkv.view(batch, positions, -1, size).transpose(1, 2).split(counts, 1)
    q, k = (_turned(x, cos, sin, interleaved) for x in parts[:2])
    return q, k, parts[2].contiguous()


_PAIRS = Case("rotary", _pairs, _by_torch, scale=lambda *_: 1.0, roundings=8)
_PACKED = Case("rotary_qkv", _packed, _packed_by_torch, scale=lambda *_: 1.0, roundings=8)
CASES = (_PAIRS, _PAIRS.with_backward(roundings=8, shared=True), _PACKED)
