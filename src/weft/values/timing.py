"""The time of a contender."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The time of one contender. `seconds` is the median of one call.

    low, high   an interval that holds the median with 95 % confidence
    samples     how many samples were taken; `dropped` were discarded, because the GPU was throttled
    how         how calls were timed: by a CUDA graph or one by one
    precision   what it computes in
    notes       remarks, e.g. that it is shorter than its launch
    memory      the most bytes that a call allocates on the GPU; None without PyTorch

    >>> timing = weft.Timing("mine", 1e-3, 0.9e-3, 1.1e-3, samples=10, dropped=0, how="graph")
    >>> print(timing.seconds)
    0.001
    """

    name: str
    seconds: float
    low: float
    high: float
    samples: int
    dropped: int
    how: str
    precision: str = ""
    notes: tuple[str, ...] = ()
    memory: int | None = None
