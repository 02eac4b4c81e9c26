"""Structs that the kernels of rotary embeddings take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Float, Int, LongLong, Struct, array

PARTS = 3
"""Tensors of a launch at the most: queries, keys and values."""


@dataclass(frozen=True)
class Rotation(Struct):
    """Heads of up to three tensors, at any strides: of the batch, of heads and of positions."""

    total: Annotated[LongLong, "threads with work"]
    from_batch: Annotated[tuple[int, ...], array(LongLong, PARTS)]
    from_head: Annotated[tuple[int, ...], array(LongLong, PARTS)]
    from_position: Annotated[tuple[int, ...], array(LongLong, PARTS)]
    to_batch: Annotated[tuple[int, ...], array(LongLong, PARTS)]
    to_head: Annotated[tuple[int, ...], array(LongLong, PARTS)]
    to_position: Annotated[tuple[int, ...], array(LongLong, PARTS)]
    angle_batch: Annotated[LongLong, "strides of cosines and sines"]
    angle_position: LongLong
    heads: Annotated[tuple[int, ...], array(Int, PARTS)]
    rotated: Annotated[tuple[int, ...], array(Int, PARTS)]
    all_heads: Int
    positions: Int
    size: Annotated[Int, "elements of a head"]
    sign: Annotated[Int, "-1: back, for gradients"]


@dataclass(frozen=True)
class Cached(Struct):
    """Tokens with packed heads, whose keys and values go to a cache."""

    tokens: LongLong
    token_stride: Annotated[LongLong, "elements between two tokens"]
    heads: Int
    kv_heads: Int
    size: Annotated[Int, "elements of a head"]
    pairs: Annotated[Int, "pairs of elements that are turned"]
    eps: Annotated[Float, "added to the mean of squares"]
