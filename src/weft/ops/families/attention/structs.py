"""Structs that the kernels of attention take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct, Unsigned, array


@dataclass(frozen=True)
class Units(Struct):
    """The units of an item, as tma_forward.cuh takes them."""

    rows: Annotated[Int, "of a unit"]
    count: Annotated[Int, "units of an item"]
    in_head: Annotated[Int, "items of a head, or of packed heads"]
    heads: Annotated[Int, "or groups of packed heads"]
    items: Annotated[Int, "of all heads and parts"]


@dataclass(frozen=True)
class Streamed(Struct):
    """The tiles that blocks stream, as tma_backward.cuh takes them."""

    tiles: Annotated[Int, "of queries of a head"]
    whole: Annotated[Int, "a block has all keys of a head, and stores dQ"]


@dataclass(frozen=True)
class Joined(Struct):
    """A result and its sums, as join.cu takes them. Strides are in elements."""

    strides: Annotated[tuple[int, ...], array(LongLong, 3), "of batch, head and row"]
    parts: Int
    heads: Int
    rows: Int
    depth: Int
    width: Int
    vectors: Annotated[Unsigned, "of 4 sums, in a part"]


@dataclass(frozen=True)
class Merged(Struct):
    """Results and the parts that are merged into them, as merge.cu takes them.

    Strides are in elements, of batch, head and row.
    """

    out: Annotated[tuple[int, ...], array(LongLong, 3)]
    lse: Annotated[tuple[int, ...], array(LongLong, 3)]
    part: Annotated[tuple[int, ...], array(LongLong, 3)]
    part_lse: Annotated[tuple[int, ...], array(LongLong, 3)]
    total: Annotated[LongLong, "rows of all heads"]
    heads: Int
    rows: Annotated[Int, "of a head"]
    width: Annotated[Int, "elements of a row"]
    lanes: Annotated[Int, "threads of a row: a power of two, at most 32"]
