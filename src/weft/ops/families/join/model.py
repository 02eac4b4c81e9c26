"""The cost model of joined tensors: not fitted to a record yet."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ops.core.target import Target


@dataclass(frozen=True)
class JoinModel:
    """The constants of the model.

    single     the time of copies of single elements, relative to vectors
    scattered  elements per second and SM of reads whose neighbours are in other sectors
    """

    single: float
    scattered: float


H200 = JoinModel(single=1.3, scattered=1.7e9)
"""Estimated from the figures of the H200; not fitted to a record yet."""


def seconds(gpu: Target, count: int, itemsize: int, whole: bool, scattered: bool) -> float:
    """Seconds to read and write so many elements, without the launch; `whole`: in vectors."""
    moved = 2 * count * itemsize * (1 if whole else H200.single) / gpu.bandwidth
    return max(moved, count / (H200.scattered * gpu.sms)) if scattered else moved
