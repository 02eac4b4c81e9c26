"""Struct that the kernel of sampling takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import Int, LongLong, Struct


@dataclass(frozen=True)
class Draw(Struct):
    """The rows of logits, and the strides of the settings: 0 if all rows share one."""

    row_stride: Annotated[LongLong, "elements between two rows"]
    tokens: Annotated[Int, "logits of a row"]
    temperature_step: Int
    top_k_step: Int
    top_p_step: Int
    seed_step: Int
    position_step: Int
