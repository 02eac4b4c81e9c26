"""Structs that the kernels of quantise take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct


@dataclass(frozen=True)
class Segments(Struct):
    """Rows, or groups of rows, that have a scale each."""

    count: LongLong
    pitch: Annotated[LongLong, "elements from a row of x to the next"]
    n: Annotated[LongLong, "elements of a segment"]
    groups: Annotated[Int, "segments of a row"]
    parts: Annotated[Int, "blocks that share a segment, of those that are not resident"]
