"""Structs that the kernels of norms of channels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, Struct


@dataclass(frozen=True)
class ChannelShape(Struct):
    """The work of the blocks of channels.cuh, which calls the kinds of tensors FLAT and RAGGED."""

    channels: Annotated[Int, "FLAT and RAGGED: columns"]
    inner: Annotated[
        Int,
        "vectors from a channel to its next; FLAT: 1, or elements of the last row; "
        "RAGGED: of a plane, at the most",
    ]
    count: Annotated[Int, "vectors of a channel; FLAT: rows"]
    width: Annotated[Int, "a power of two; without FLAT: 1"]
    parts: Int
    each: Int
    plane: Annotated[Int, "RAGGED: elements; FLAT as well: channels"]
