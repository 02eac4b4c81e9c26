"""The timeline of a program: what it asked of a GPU, and when each part of it ran.

A program, or the front end of a script, records its *activities* in order. The schedule makes the
*events* of a timeline of them: `weft.measure.timeline`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

CALL, RETURN = "call", "return"
"""The host enters a function of CUDA or an operation of PyTorch, and leaves it."""
KERNEL, COPY, FILL, HOST, COMPUTE = "kernel", "copy", "fill", "host function", "library"
"""Work of a stream; COMPUTE is that of a library, such as cuBLAS."""
CREATED, RECORDED, WAITS = "stream created", "event recorded", "stream waits"
HOST_WAITS_STREAM, HOST_WAITS_EVENT, HOST_WAITS_ALL = "wait stream", "wait event", "wait all"
GRAPH, NODE, GRAPH_ENDS = "graph", "node", "graph ends"
PUSH, POP, START, END, MARK = "push", "pop", "start", "end", "mark"
"""Ranges of NVTX."""
WORK = (KERNEL, COPY, FILL, HOST, COMPUTE)

TO_DEVICE, TO_HOST, ON_DEVICE = "HtoD", "DtoH", "DtoD"
"""Directions of copies, as Nsight Systems names them."""


class Activity(NamedTuple):
    """One thing that a program did, in the order of its calls.

    what      one of the words above
    thread    the thread of the host
    name      the function, kernel, range or direction of a copy
    stream    the handle of the stream
    number    the flags of a new stream; the handle of an event; the number of a range, of a profile
              (kernels), of a call (operations) or of a node
    facts     grid, block, bytes, whether memory is pageable, allocations that it accesses, …
    """

    what: str
    thread: int = 0
    name: str = ""
    stream: int = 0
    number: int = 0
    facts: Mapping[str, Any] = {}


class TimelineEvent(NamedTuple):
    """One bar of a timeline; times are in seconds from the first activity.

    kind      call, kernel, copy, fill, host function, library, graph, range or mark
    lane      "thread 1", "stream 7", "NVTX 1"
    after     the number of the event that it began after; -1: of none
    until     the number of the event that a call of the host waited for; -1: of none
    launch    the number of the host call that submitted it; -1: of none
    """

    kind: str
    name: str
    lane: str
    start: float
    seconds: float
    after: int = -1
    until: int = -1
    launch: int = -1
    facts: Mapping[str, Any] = {}

    @property
    def end(self) -> float:
        return self.start + self.seconds


class Gap(NamedTuple):
    """A time in which the GPU had nothing to do; `why` names what the next work waited for."""

    start: float
    seconds: float
    why: str
    event: int


class Hint(NamedTuple):
    """A copy and a kernel that could overlap: why they do not, and the seconds that it costs."""

    copy: int
    kernel: int
    why: str
    seconds: float


class Statistic(NamedTuple):
    """Events of one name: their number, times in seconds, and bytes for copies."""

    name: str
    calls: int
    total: float
    least: float
    most: float
    nbytes: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.calls


@dataclass(frozen=True)
class Timeline:
    """The events of a program, and what follows from them.

    program   its file
    gpu       the name of the GPU
    clock     "modelled" on the simulated GPU, "measured" on a real one
    path      the events of the critical path, in order
    critical  the names on it with their seconds, the most first
    overlap   seconds in which the GPU ran more than one piece of work
    busy      seconds in which it ran any
    """

    program: str
    gpu: str
    clock: str
    events: Sequence[TimelineEvent]
    path: Sequence[int] = ()
    critical: Sequence[tuple[str, float]] = ()
    gaps: Sequence[Gap] = ()
    hints: Sequence[Hint] = ()
    busy: float = 0.0
    overlap: float = 0.0
    statistics: Mapping[str, Sequence[Statistic]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The time from the first event to the end of the last."""
        return max((e.end for e in self.events), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """The statistics, gaps, hints and the critical path, for JSON; a trace has the events."""
        events = self.events
        return {
            "gpu": self.gpu, "clock": self.clock, "events": len(events), "seconds": self.seconds,
            "busy": self.busy, "overlap": self.overlap,
            "statistics": {
                kind: [{**row._asdict(), "mean": row.mean} for row in rows]
                for kind, rows in self.statistics.items()
            },
            "critical_path": [{"name": name, "seconds": s} for name, s in self.critical],
            "gaps": [gap._asdict() for gap in self.gaps],
            "hints": [
                {**hint._asdict(), "copy": events[hint.copy].name,
                 "kernel": events[hint.kernel].name}
                for hint in self.hints
            ],
        }  # fmt: skip
