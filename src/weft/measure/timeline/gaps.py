"""Finds when the GPU is busy, when it runs several things at once, and when it waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.values.time import timeline
from weft.values.time.timeline import Gap, TimelineEvent

GPU = (timeline.KERNEL, timeline.COPY, timeline.FILL, timeline.COMPUTE)
"""Events that keep the GPU busy."""
_LONGEST = 20
_ROUNDING = 1e-12


class Use(NamedTuple):
    """Seconds with any work, seconds with more than one piece of it, and the longest gaps."""

    busy: float
    overlap: float
    gaps: tuple[Gap, ...]


def use(events: Sequence[TimelineEvent]) -> Use:
    """Add up the work of a GPU."""
    work = [i for i, e in enumerate(events) if e.kind in GPU and e.seconds > 0]
    changes = sorted([(events[i].start, 1) for i in work] + [(events[i].end, -1) for i in work])
    busy = overlap = last = 0.0
    running = 0
    for at, change in changes:
        busy += (at - last) * (running > 0)
        overlap += (at - last) * (running > 1)
        running, last = running + change, at
    longest = sorted(_gaps(events, work), key=lambda gap: -gap.seconds)[:_LONGEST]
    return Use(busy, overlap, tuple(longest))


def _gaps(events: Sequence[TimelineEvent], work: Sequence[int]) -> Iterator[Gap]:
    end: float | None = None
    for i in sorted(work, key=lambda i: events[i].start):
        event = events[i]
        if end is not None and event.start > end + _ROUNDING:
            yield Gap(end, event.start - end, _why(events, event), i)
        end = event.end if end is None else max(end, event.end)


def _why(events: Sequence[TimelineEvent], event: TimelineEvent) -> str:
    """Name the event that the work after a gap waited for."""
    before = events[event.after] if event.after >= 0 else None
    if before is None:
        return "the begin of the program"
    if before.kind == timeline.CALL:
        return f"the host, which called {before.name}"
    return f"{before.name} in {before.lane}"
