"""Finds copies that could run beside a kernel, and do not.

A copy and a kernel that follow each other are reported only if nothing orders them but the way in
which they were called: they access different memory, also by way of work between them, and the host
did not know the result of the first one when it called the second. The memory of a kernel is that
of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.measure.timeline.gaps import GPU
from weft.values.time import timeline
from weft.values.time.timeline import Hint, TimelineEvent

Span = tuple[int, int]

_ROUNDING = 1e-12
_PAGEABLE = (
    "the host memory is pageable, so that the host waits for the copy: allocate it with "
    "cudaMallocHost and copy it with cudaMemcpyAsync in a stream of its own"
)
_SAME_STREAM = "both are in the same stream: use a second one for the copy"
_DEFAULT_STREAM = "the default stream waits for all others: use streams of your own for both"


def hints(events: Sequence[TimelineEvent]) -> list[Hint]:
    """The pairs that could overlap, those with the most time first; each copy once.

    Those that would save less than a two-hundredth of the whole time are left out.
    """
    least = max((e.end for e in events), default=0.0) / 200
    order = sorted(
        (i for i, e in enumerate(events) if e.kind in GPU), key=lambda i: events[i].start
    )
    best: dict[int, Hint] = {}
    for hint in _pairs(events, order):
        if hint.copy not in best or best[hint.copy].seconds < hint.seconds:
            best[hint.copy] = hint
    found = (hint for hint in best.values() if hint.seconds >= least)
    return sorted(found, key=lambda hint: -hint.seconds)


def _pairs(events: Sequence[TimelineEvent], order: Sequence[int]) -> Iterator[Hint]:
    """The copies, each with the kernel before it and the one after it."""
    for place, i in enumerate(order):
        if not _is_transfer(events[i]):
            continue
        for step in (-1, 1):
            near = place + step
            while 0 <= near < len(order) and events[order[near]].kind != timeline.KERNEL:
                near += step
            if not 0 <= near < len(order):
                continue
            low, high = sorted((place, near))
            run = [events[n] for n in order[low : high + 1]]
            why = _reason(events[i], events[order[near]])
            if why and _could_overlap(events, run):
                seconds = min(events[i].seconds, events[order[near]].seconds)
                yield Hint(i, order[near], why, seconds)


def _is_transfer(event: TimelineEvent) -> bool:
    return event.kind == timeline.COPY and event.name != timeline.ON_DEVICE


def _could_overlap(events: Sequence[TimelineEvent], run: Sequence[TimelineEvent]) -> bool:
    """True if the last one of a run needs nothing of the first one."""
    first, last = run[0], run[-1]
    reached = list(first.facts.get("memory", ()))
    if first.end > last.start + _ROUNDING or not reached or not last.facts.get("memory"):
        return False
    for between in run[1:-1]:
        memory = between.facts.get("memory", ())
        if not memory or _shares(memory, reached):
            reached += memory
    if _shares(reached, last.facts["memory"]):
        return False
    # A copy to the device gives the host no result.
    unseen = last.launch >= 0 and events[last.launch].start < first.end - _ROUNDING
    return unseen or (first.kind == timeline.COPY and first.name == timeline.TO_DEVICE)


def _shares(some: Sequence[Span], others: Sequence[Span]) -> bool:
    """True if two lists of memory, by start and bytes, overlap."""
    return any(a < b + m and b < a + n for a, n in some for b, m in others)


def _reason(copy: TimelineEvent, kernel: TimelineEvent) -> str:
    if copy.facts.get("pageable"):
        return _PAGEABLE
    if copy.lane == kernel.lane:
        return _SAME_STREAM
    return _DEFAULT_STREAM if "default stream" in (copy.lane, kernel.lane) else ""
