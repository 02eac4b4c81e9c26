"""Resolves the recorded events of a cluster: phases of mbarriers, uses of stages, meetings.

The order in which the simulator ran the events says which phase an arrival belongs to, which copies
a read finds, and which warps have met at a barrier. `clocks` lets them happen in another order, in
which the same depends on the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.device.sim.tools.counters.stages.layout import EventKind, StageEvent

Warp = tuple[int, int]
"""Rank and warp."""
Phase = tuple[int, int]
"""An mbarrier, and the number of its phase from 0 on."""
Meeting = tuple[object, ...]
"""A completed barrier of a block or of the cluster."""


class Resolved(NamedTuple):
    """An event and what it belongs to.

    phase    of the mbarrier that it arrives at or has waited for
    meeting  of the barrier that it is at
    reads    the phases whose copies it reads
    fills    copies that it reports: itself, or `cp.async` before it
    """

    event: StageEvent
    phase: Phase | None = None
    meeting: Meeting | None = None
    reads: tuple[Phase, ...] = ()
    fills: tuple[StageEvent, ...] = ()


@dataclass
class Trace:
    """The events of each warp in the order of its program.

    needed   phases and meetings -> the number of events that complete them
    places   mbarrier -> the memory of the copies that report to it: (first byte, end)
    """

    warps: dict[Warp, list[Resolved]] = field(default_factory=lambda: defaultdict(list))
    needed: Counter[Phase | Meeting] = field(default_factory=Counter)
    places: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add_place(self, barrier: int, start: int, end: int) -> None:
        """Add memory to that of an mbarrier; parts that touch are one."""
        places = self.places[barrier]
        near = [x for x in places if x[0] <= end and start <= x[1]]
        if near != [(start, end)]:
            joined = [x for x in places if x not in near]
            first, last = zip(*near, (start, end), strict=True)
            self.places[barrier] = [*joined, (min(first), max(last))]


def moved(copy: StageEvent) -> int:
    """The bytes of a copy."""
    return copy.barrier if copy.kind is EventKind.PIECES else copy.second


def resolve(events: Iterable[StageEvent]) -> Trace:
    """Read the events in the order in which they were recorded."""
    reader = _Reader()
    for event in events:
        reader.take(event)
    return reader.trace


class _Reader:
    """One pass over the events."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._latest: dict[int, int] = {}
        """mbarrier -> the number of its current phase."""
        self._filled: dict[int, int] = {}
        """mbarrier -> the last phase with copies."""
        self._pieces: dict[Warp, list[StageEvent]] = defaultdict(list)
        self._generations: Counter[tuple[int, int]] = Counter()
        self._rounds: Counter[Warp] = Counter()

    def take(self, event: StageEvent) -> None:
        """Resolve one event."""
        warp = event.rank, event.warp
        match event.kind:
            case EventKind.RELEASE:
                self._generations[event.rank, event.first] += 1
                return
            case EventKind.INIT:
                self._init(event)
                found = Resolved(event)
            case EventKind.COPY:
                found = self._fill(event, (event,))
            case EventKind.PIECES:
                self._pieces[warp].append(event)
                found = Resolved(event)
            case EventKind.AFTER:
                found = self._fill(event, tuple(self._pieces.pop(warp, ())))
            case EventKind.ARRIVE:
                found = self._completes(Resolved(event, self._phase(event)))
            case EventKind.PASS:
                found = Resolved(event, (event.barrier, self._phase(event)[1] - 1))
            case EventKind.READ:
                found = Resolved(event, reads=self._reads(event.first))
            case EventKind.WRITE:
                for barrier, _ in self._reads(event.first, event.second):
                    del self._filled[barrier]  # what is read from now on is no copy
                return
            case EventKind.PRODUCT:
                places = [x for x in (event.first, event.second) if x >= 0]
                found = Resolved(event, reads=tuple(r for x in places for r in self._reads(x)))
            case EventKind.BARRIER:
                number = self._generations[event.rank, event.first]
                found = self._completes(Resolved(event, meeting=(event.rank, event.first, number)))
            case EventKind.CLUSTER_ARRIVE:
                self._rounds[warp] += 1
                found = self._completes(Resolved(event, meeting=("cluster", self._rounds[warp])))
            case EventKind.CLUSTER_PASS:
                found = Resolved(event, meeting=("cluster", self._rounds[warp]))
            case _:
                found = Resolved(event)
        self.trace.warps[warp].append(found)

    def _completes(self, found: Resolved) -> Resolved:
        """Count an event among those that complete its phase or meeting."""
        key = found.phase or found.meeting
        assert key is not None
        self.trace.needed[key] += 1
        return found

    def _phase(self, event: StageEvent) -> Phase:
        """The current phase of an mbarrier: the event has the two lowest bits of its number."""
        bits = event.phase >> 2 & 1 | event.phase & 2
        before = self._latest.get(event.barrier, 0)
        self._latest[event.barrier] = now = before + (bits - before & 3)
        return event.barrier, now

    def _init(self, event: StageEvent) -> None:
        # Phases of an mbarrier that is initialised again follow those before it.
        before = self._latest.get(event.barrier)
        self._latest[event.barrier] = 0 if before is None else (before | 3) + 1

    def _fill(self, event: StageEvent, copies: tuple[StageEvent, ...]) -> Resolved:
        phase = self._phase(event)
        for copy in copies:
            self.trace.add_place(event.barrier, copy.first, copy.first + copy.second)
            self._filled[event.barrier] = phase[1]
        return self._completes(Resolved(event, phase, fills=copies))

    def _reads(self, first: int, nbytes: int = 1) -> tuple[Phase, ...]:
        """The phases whose copies have filled the memory in a range last."""
        return tuple(
            (barrier, self._filled[barrier])
            for barrier, places in self.trace.places.items()
            if barrier in self._filled and any(a < first + nbytes and first < b for a, b in places)
        )
