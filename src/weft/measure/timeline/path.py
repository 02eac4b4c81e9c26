"""Finds the critical path of a timeline: the events that its last one had to wait for."""

from __future__ import annotations

from collections.abc import Sequence

from weft.values.time.timeline import TimelineEvent

_ROUNDING = 1e-12


def critical(events: Sequence[TimelineEvent]) -> list[int]:
    """The numbers of the events on the path, the first one first.

    The path leads back from the last end. A call that waited for work leads to that work; all
    others lead to what they began after.
    """
    timed = [i for i, e in enumerate(events) if e.kind not in ("range", "mark", "graph")]
    if not timed:
        return []
    at = max(timed, key=lambda i: events[i].end)
    bound, path = events[at].end, [at]
    while True:
        event = events[at]
        waited = event.until >= 0 and bound >= event.end - _ROUNDING
        before = event.until if waited else event.after
        # Only work that ended earlier: a call comes before the work that it submits.
        if before < 0:
            return path[::-1]
        bound = min(events[before].end, event.start if not waited else bound)
        at = before
        path.append(at)


def by_name(events: Sequence[TimelineEvent], path: Sequence[int]) -> list[tuple[str, float]]:
    """The names on a path with the seconds that each adds to it, the most first."""
    spent: dict[str, float] = {}
    now = 0.0
    for number, then in zip(path, [*path[1:], None], strict=True):
        event = events[number]
        # An event that a call waited for lasts to its end, all others until the next one begins.
        last = then is None or events[then].until == number
        until = event.end if last else events[then].start  # type: ignore[index]
        spent[event.name] = spent.get(event.name, 0.0) + max(0.0, until - now)
        now = max(now, until)
    return sorted(spent.items(), key=lambda row: -row[1])
