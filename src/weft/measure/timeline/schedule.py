"""Makes the events of a timeline of activities: when each piece of work runs, and after what.

Work begins when its call has been made, when the work before it in its stream has ended, when the
events that its stream waits for were reached, and when an engine is free. The default stream and
blocking streams wait for each other. A call of the host ends after a fixed time, or with the work
that it waits for. The host's own code between calls takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.device.models import GpuModel
from weft.measure.timeline import duration
from weft.measure.timeline.engines import BEGIN, Engine, Moment
from weft.measure.timeline.graph import GraphRun
from weft.measure.timeline.lanes import Lanes
from weft.values.time import timeline
from weft.values.time.timeline import Activity, TimelineEvent

Seconds = Callable[[Activity], float]
"""The seconds of a kernel or of an operation."""

_DEFAULT = 0
_LEGACY = 1
"""The handle of the default stream, and its alias."""
_NON_BLOCKING = 1


@dataclass
class _Stream:
    """A stream; it gets its number with its first work."""

    blocking: bool
    number: int = -1
    last: Moment = BEGIN
    waits: Moment = BEGIN


@dataclass
class _Thread:
    """A thread of the host: its clock, its open call, and what that call waits for."""

    now: Moment = BEGIN
    call: int = -1
    until: Moment = BEGIN
    ranges: list[tuple[str, float]] = field(default_factory=list)
    graph: GraphRun | None = None


class Replay:
    """The state of a GPU and its host while activities are replayed."""

    def __init__(self, gpu: GpuModel, kernel: Seconds) -> None:
        self._gpu, self._kernel = gpu, kernel
        self.events: list[TimelineEvent] = []
        self._lanes = Lanes()
        self._threads: dict[int, _Thread] = {}
        self._streams = {_DEFAULT: _Stream(True, 0)}
        self._reached: dict[int, Moment] = {}
        self._started: dict[int, tuple[str, float, int]] = {}
        self._engines: dict[str, Engine] = {}
        self._graphs = self._numbered = 0
        self._does: dict[str, Callable[[Activity, _Thread], None]] = {
            timeline.CALL: self._call, timeline.RETURN: self._return,
            timeline.CREATED: self._created, timeline.RECORDED: self._recorded,
            timeline.WAITS: self._waits, timeline.HOST_WAITS_STREAM: self._host_waits,
            timeline.HOST_WAITS_EVENT: self._host_waits, timeline.HOST_WAITS_ALL: self._host_waits,
            timeline.GRAPH: self._graph, timeline.NODE: self._node,
            timeline.GRAPH_ENDS: self._graph_ends, timeline.PUSH: self._push,
            timeline.POP: self._pop, timeline.START: self._start, timeline.END: self._end,
            timeline.MARK: self._mark, **dict.fromkeys(timeline.WORK, self._work),
        }  # fmt: skip

    def run(self, activities: Sequence[Activity]) -> list[TimelineEvent]:
        """Replay the activities and return the events in the order of their calls."""
        for one in activities:
            thread = self._threads.get(one.thread)
            if thread is None:
                # A thread begins when another one starts it; which one is not known.
                now = max((t.now for t in self._threads.values()), default=BEGIN)
                thread = self._threads[one.thread] = _Thread(now)
            self._does[one.what](one, thread)
        return self.events

    # ---- the host ---------------------------------------------------------------------------
    def _add(self, event: TimelineEvent) -> int:
        self.events.append(event)
        return len(self.events) - 1

    def _call(self, one: Activity, thread: _Thread) -> None:
        lane = f"thread {one.thread}"
        now, after = thread.now
        thread.call = self._add(
            TimelineEvent(timeline.CALL, one.name, lane, now, duration.host(one.name), after)
        )
        thread.until = BEGIN

    def _return(self, one: Activity, thread: _Thread) -> None:
        if thread.call < 0:
            return
        event = self.events[thread.call]
        if thread.until.seconds > event.end:
            seconds = thread.until.seconds - event.start
            event = event._replace(seconds=seconds, until=thread.until.event)
            self.events[thread.call] = event
        thread.now, thread.call = Moment(event.end, thread.call), -1

    def _host_waits(self, one: Activity, thread: _Thread) -> None:
        if one.what == timeline.HOST_WAITS_EVENT:
            moment = self._reached.get(one.number, BEGIN)
        elif one.what == timeline.HOST_WAITS_STREAM:
            moment = self._ready(one.stream)
        else:
            moment = max(s.last for s in self._streams.values())
        self._until(thread, moment)

    def _until(self, thread: _Thread, moment: Moment) -> None:
        """Let the host wait: in its call, or where it is."""
        if thread.call >= 0:
            thread.until = max(thread.until, moment)
        elif moment.seconds > thread.now.seconds:
            thread.now = moment

    # ---- streams ----------------------------------------------------------------------------
    def _stream(self, handle: int) -> _Stream:
        handle = _DEFAULT if handle == _LEGACY else handle
        if handle not in self._streams:
            self._streams[handle] = _Stream(True)
        return self._streams[handle]

    def _number(self, stream: _Stream) -> int:
        if stream.number < 0:
            self._numbered += 1
            stream.number = self._numbered
        return stream.number

    def _created(self, one: Activity, thread: _Thread) -> None:
        blocking = not one.number & _NON_BLOCKING
        self._streams[one.stream] = _Stream(blocking)

    def _ready(self, handle: int) -> Moment:
        """The moment at which the stream could begin new work."""
        stream, default = self._stream(handle), self._streams[_DEFAULT]
        moments = [stream.last, stream.waits]
        if stream is default:
            moments += [s.last for s in self._streams.values() if s.blocking]
        elif stream.blocking:
            moments.append(default.last)
        return max(moments)

    def _recorded(self, one: Activity, thread: _Thread) -> None:
        self._reached[one.number] = self._ready(one.stream)

    def _waits(self, one: Activity, thread: _Thread) -> None:
        stream = self._stream(one.stream)
        stream.waits = max(stream.waits, self._reached.get(one.number, BEGIN))

    # ---- work -------------------------------------------------------------------------------
    def _submitted(self, thread: _Thread) -> Moment:
        """The earliest begin of work that the open call of the host submits."""
        if thread.call < 0:
            return Moment(thread.now.seconds + duration.LATENCY, thread.now.event)
        call = self.events[thread.call]
        return Moment(call.start + duration.host(call.name) + duration.LATENCY, thread.call)

    def _work(self, one: Activity, thread: _Thread) -> None:
        stream, graph = self._stream(one.stream), thread.graph
        counted = one.what == timeline.KERNEL
        seconds = self._kernel(one) if counted else duration.work(one, self._gpu)
        ready = max(self._submitted(thread), self._ready(one.stream))
        if graph is not None:
            ready = graph.ready
        name, part = self._needs(one)
        engine = self._engines.setdefault(name, Engine())
        start, after = engine.free_at(ready, seconds, part) if part else ready
        facts = {k: v for k, v in one.facts.items() if v not in (None, "", [], False)}
        facts["graph"] = graph.number if graph is not None else 0
        lane = self._lanes.at(self._number(stream), start, start + seconds)
        number = self._add(
            TimelineEvent(one.what, one.name, lane, start, seconds, after, -1, thread.call, facts)
        )
        engine.take(start, start + seconds, part, number)
        end = Moment(start + seconds, number)
        if graph is not None:
            graph.ran(end)
        stream.last = max(stream.last, end)
        if one.facts.get("pageable"):  # the host copies it into a buffer that is pinned
            self._until(thread, end)

    def _needs(self, one: Activity) -> tuple[str, float]:
        """The engine of a piece of work, and the part of it that the work takes."""
        if one.what == timeline.COPY and one.name != timeline.ON_DEVICE:
            return one.name, 1.0
        if one.what == timeline.HOST:
            return one.what, 0.0
        x, y, z = one.facts.get("grid", (self._gpu.sms, 1, 1))
        return timeline.KERNEL, min(1.0, x * y * z / self._gpu.sms)

    # ---- graphs -----------------------------------------------------------------------------
    def _graph(self, one: Activity, thread: _Thread) -> None:
        begin = max(self._submitted(thread), self._ready(one.stream))
        self._graphs += 1
        thread.graph = GraphRun(self._graphs, begin)

    def _node(self, one: Activity, thread: _Thread) -> None:
        if thread.graph is not None:
            thread.graph.node(one.number, one.facts.get("after", ()))

    def _graph_ends(self, one: Activity, thread: _Thread) -> None:
        graph, thread.graph = thread.graph, None
        if graph is None:
            return
        lane = f"graphs of {self._lanes.name(self._number(self._stream(one.stream)))}"
        seconds = graph.end.seconds - graph.begin.seconds
        facts = {"graph": graph.number}
        self._add(
            TimelineEvent(timeline.GRAPH, f"graph {graph.number}", lane, graph.begin.seconds,
                          seconds, graph.begin.event, -1, thread.call, facts)
        )  # fmt: skip

    # ---- ranges -----------------------------------------------------------------------------
    def _now(self, thread: _Thread) -> float:
        return thread.now.seconds

    def _push(self, one: Activity, thread: _Thread) -> None:
        thread.ranges.append((one.name, self._now(thread)))

    def _pop(self, one: Activity, thread: _Thread) -> None:
        if thread.ranges:
            name, start = thread.ranges.pop()
            self._range(name, start, thread, one.thread)

    def _start(self, one: Activity, thread: _Thread) -> None:
        self._started[one.number] = one.name, self._now(thread), one.thread

    def _end(self, one: Activity, thread: _Thread) -> None:
        if one.number in self._started:
            name, start, owner = self._started.pop(one.number)
            self._range(name, start, thread, owner, "started ranges")

    def _range(
        self, name: str, start: float, thread: _Thread, owner: int, of: str = "ranges"
    ) -> None:
        seconds = self._now(thread) - start
        lane = f"NVTX {of} {owner}"
        self._add(TimelineEvent("range", name, lane, start, seconds))

    def _mark(self, one: Activity, thread: _Thread) -> None:
        lane = f"NVTX ranges {one.thread}"
        self._add(TimelineEvent(timeline.MARK, one.name, lane, self._now(thread), 0.0))


def events(activities: Sequence[Activity], gpu: GpuModel, kernel: Seconds) -> list[TimelineEvent]:
    """The events of activities; `kernel` gives the seconds of kernels and operations."""
    return Replay(gpu, kernel).run(activities)
