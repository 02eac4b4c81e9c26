"""The predicted time of a launch: what bounds it, and where its warps wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LineStalls:
    """The part of the launch's warp time that one source line takes.

    file, number  the line; "" and 0 for code without a line
    share         the part of the warps' time, 0 to 1
    reasons       ncu's name of a stall reason -> its part of the warps' time, the largest first

    >>> line = p.predicted.stalls[0]
    >>> print(isinstance(line, weft.LineStalls), line.share <= 1)
    True True
    """

    file: str
    number: int
    quote: str
    share: float
    reasons: Mapping[str, float]


@dataclass(frozen=True)
class Prediction:
    """The predicted time of one launch on one GPU.

    kernel    its name
    gpu       the key of the GPU model: "h200"
    seconds   the predicted time of one launch
    bound     the unit that takes most of it, or "latency" or "launch"
    units     (unit, seconds): the time that each unit alone would take, the longest first
    stalls    source lines, the one with most time first
    judged    whether predictions for this GPU were compared with measured times
    launches  the number of equal launches; `seconds` is the time of one

    >>> prediction = p.predict("a100")
    >>> print(prediction.bound, prediction.judged)
    launch False
    """

    kernel: str
    gpu: str
    seconds: float
    bound: str
    units: tuple[tuple[str, float], ...]
    stalls: tuple[LineStalls, ...]
    judged: bool
    launches: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON-compatible values."""
        return asdict(self)
