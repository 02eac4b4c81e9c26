"""The engines of a GPU: which work can run at the same time.

A GPU has an engine for copies in each direction. Kernels run together if their blocks leave SMs
free: one with as many blocks as the GPU has SMs, or more, takes all of them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

_KEPT = 256
"""Kernels before a new one that may still run when it begins."""


class Moment(NamedTuple):
    """A time, and the event that ends then; -1: none."""

    seconds: float
    event: int = -1


BEGIN = Moment(0.0)


class _Taken(NamedTuple):
    start: float
    end: float
    part: float
    event: int


class Engine:
    """A resource of which each piece of work takes a part, up to 1 in all."""

    def __init__(self) -> None:
        self._taken: deque[_Taken] = deque(maxlen=_KEPT)

    def free_at(self, ready: Moment, seconds: float, part: float) -> Moment:
        """The first moment from `ready` on at which the part is free for so long."""
        later = [one for one in self._taken if one.end > ready.seconds]
        moments = [ready, *sorted(Moment(one.end, one.event) for one in later)]
        return next(m for m in moments if self._fits(later, m.seconds, seconds, part))

    def take(self, start: float, end: float, part: float, event: int) -> None:
        if end > start:
            self._taken.append(_Taken(start, end, part, event))

    def _fits(self, later: list[_Taken], start: float, seconds: float, part: float) -> bool:
        beside = [one for one in later if one.start < start + seconds and one.end > start]
        points = [start, *(one.start for one in beside if one.start > start)]
        return all(
            part + sum(one.part for one in beside if one.start <= at < one.end) <= 1 + 1e-9
            for at in points
        )
