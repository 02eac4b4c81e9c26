"""Adds up the events of a timeline, as `nsys stats` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.values.time import timeline
from weft.values.time.timeline import Statistic, TimelineEvent

_KINDS: dict[str, Callable[[TimelineEvent], bool]] = {
    "calls": lambda e: e.kind == timeline.CALL,
    "kernels": lambda e: e.kind in (timeline.KERNEL, timeline.COMPUTE),
    "copies": lambda e: e.kind in (timeline.COPY, timeline.FILL),
    "ranges": lambda e: e.kind == "range",
}


def statistics(events: Sequence[TimelineEvent]) -> dict[str, list[Statistic]]:
    """Calls by function, kernels by name, copies by direction, ranges; the most time first."""
    return {kind: _rows([e for e in events if takes(e)]) for kind, takes in _KINDS.items()}


def _rows(events: Sequence[TimelineEvent]) -> list[Statistic]:
    named: dict[str, list[TimelineEvent]] = {}
    for event in events:
        named.setdefault(event.name, []).append(event)
    rows = [
        Statistic(
            name, len(of), sum(e.seconds for e in of), min(e.seconds for e in of),
            max(e.seconds for e in of), sum(e.facts.get("bytes", 0) for e in of),
        )
        for name, of in named.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row.total, row.name))
