"""The times of rungs and peers, as climbs hold them and records keep them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str], None]
"""Called with what a climb does next."""


@dataclass(frozen=True)
class Time:
    """The time of a rung or a peer on one case.

    of_limit   the case's limit over this time: 1 is the hardware limit
    of_peer    the best peer's time over this time: above 1 is faster than the peer
    notes      remarks for the reader, e.g. that it is shorter than its launch
    memory     bytes of GPU memory at the peak of a call, with its outputs; None if not measured
    """

    case: str
    seconds: float
    low: float
    high: float
    how: str
    of_limit: float = 0.0
    of_peer: float = 0.0
    samples: int = 0
    notes: tuple[str, ...] = ()
    memory: int | None = None
