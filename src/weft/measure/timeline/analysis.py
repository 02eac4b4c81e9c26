"""Adds to the events of a timeline what follows from them."""

from __future__ import annotations

from collections.abc import Sequence

from weft.measure.timeline import overlap, path
from weft.measure.timeline.gaps import use
from weft.measure.timeline.statistics import statistics
from weft.values.time.timeline import Timeline, TimelineEvent


def analysed(program: str, gpu: str, clock: str, events: Sequence[TimelineEvent]) -> Timeline:
    """The timeline of events, with its critical path, gaps, hints and statistics."""
    busy, together, gaps = use(events)
    numbers = path.critical(events)
    return Timeline(
        program, gpu, clock, events, numbers, path.by_name(events, numbers), gaps,
        overlap.hints(events), busy, together, statistics(events),
    )  # fmt: skip
