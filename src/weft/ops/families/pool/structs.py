"""Structs that the kernels of pooling take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct, Unsigned, array, defines
from weft.ops.core.layouts import divisor

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Size(Struct):
    """A size to divide by: quotients of 32-bit numbers come from a multiplication."""

    size: Unsigned
    magic: Unsigned
    shift: Unsigned


def size_of(size: int) -> Size:
    """A size with the numbers that divide by it."""
    return Size(size, *divisor(size, 32))


@dataclass(frozen=True)
class PoolShape(Struct):
    """A call, and how its threads are numbered."""

    total: Annotated[LongLong, "threads that have work"]
    height: Int
    width: Int
    out_rows: Int
    out_columns: Int
    inner: Annotated[Size, "vectors of the inner dimension"]
    columns: Size
    rows: Size
    planes: Annotated[Unsigned, "of the tensors, where a thread has several"]


@dataclass(frozen=True)
class ChunkShape(Struct):
    """The part of a block: `planes` planes, or `rows` rows of the result of one plane."""

    plane: Annotated[LongLong, "elements between planes of the input"]
    row: Annotated[Int, "elements between rows, which may have gaps between them"]
    column: Annotated[Int, "elements between columns"]
    rows: Int
    planes: Int
    bands: Annotated[Unsigned, "blocks that have a plane"]


@dataclass(frozen=True)
class StridedShape(Struct):
    """A part of a tensor of any strides: planes of some channels of some images. In memory it is
    segments of `run` neighbours."""

    row: Annotated[Int, "as in ChunkShape, of shared memory"]
    column: Int
    rows: Int
    bands: Unsigned
    high: Annotated[Int, "rows of the input in a chunk"]
    plane: Annotated[Numbers, array(Int, 2), "between channels, images, in shared memory"]
    counts: Annotated[Numbers, array(Int, 2), "channels and images of a chunk"]
    all: Annotated[Numbers, array(Int, 2), "the same of the tensor"]
    blocks: Annotated[Unsigned, "along channels"]
    channels: Annotated[Size, "of a chunk"]
    run: Annotated[Size, "neighbours of a segment"]
    first: Annotated[Size, "segments along two dimensions"]
    second: Size
    segments: Int
    lanes: Annotated[Int, "threads of a segment, a power of two"]
    pitch: Annotated[Numbers, array(Int, 3), "of shared memory"]
    down: Annotated[LongLong, "of the input: between rows"]
    strides: Annotated[Numbers, array(LongLong, 2), "between channels, images"]
    apart: Annotated[Numbers, array(LongLong, 3), "between segments"]


STRUCTS = defines(PoolShape, ChunkShape, StridedShape)
"""The macros of all kernels of the family."""
