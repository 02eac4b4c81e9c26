"""The struct that the kernels of weight-only products take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct, Unsigned


@dataclass(frozen=True)
class QuantisedProblem(Struct):
    """M tokens times N rows of K weights. Strides are in elements, those of the weight in bytes."""

    M: Int
    N: Int
    K: Int
    groups: Annotated[Int, "of a row"]
    group: Annotated[Int, "weights that share a scale"]
    magic: Annotated[Int, "of the division by `group`; see weft/problem.cuh"]
    shift: Int
    bits: Annotated[Unsigned, "MAGIC of weft/dequantise.cuh"]
    splits: Annotated[Int, "parts of K"]
    each: Annotated[Int, "K of a part"]
    x_row: LongLong
    weight_row: LongLong
    scale_n: LongLong
    scale_group: LongLong
    zero_n: LongLong
    zero_group: LongLong
    bias_n: LongLong
    constant: Annotated[Int, "no kernel before writes the weight: reads begin before it ends"]
