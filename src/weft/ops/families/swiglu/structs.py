"""Structs that the kernels of gated activations take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct


@dataclass(frozen=True)
class GatedRows(Struct):
    """Rows of n elements; elements from one row of a tensor to the next."""

    count: Annotated[LongLong, "rows"]
    gate: LongLong
    up: LongLong
    dy: LongLong
    result: Annotated[LongLong, "of gradients"]
    n: Int
