"""The cost model of joined tensors: not fitted to a record yet."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ops.core.target import Target


@dataclass(frozen=True)
class JoinModel:
    """The constants of the model.

    single  the time of copies of single elements, relative to vectors
    """

    single: float


H200 = JoinModel(single=1.3)
"""Estimated from the figures of the H200; not fitted to a record yet."""


def seconds(gpu: Target, moved: int, whole: int) -> float:
    """Seconds to read and write so many bytes, `whole` of them in vectors."""
    return gpu.launch + 2 * (whole + (moved - whole) * H200.single) / gpu.bandwidth
