"""Tracks the order that CUDA guarantees between work items, with vector clocks per stream.

Only calls count, never when work happens to run: work is ordered after what came before it in its
stream, after what its stream waits for, and after what the host had waited for when it submitted
it. The default stream and blocking streams wait for each other. The host is one thread: what one of
its threads has waited for counts as known to all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Clock = dict[int, int]
"""Stream number -> number of its work items that are known to be complete."""

DEFAULT, PER_THREAD = 0, 2
"""Handles of predefined streams; 1 is an alias of the default stream."""
_NON_BLOCKING = 1


@dataclass(slots=True)
class StreamClock:
    """A stream and the clock of its next work."""

    number: int
    blocking: bool
    clock: Clock = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class WorkItem:
    """A work item: its sequence number in its stream, and its clock."""

    stream: int
    sequence: int
    clock: Clock

    def after(self, other: WorkItem) -> bool:
        """True if this is ordered after the other work."""
        return self.clock.get(other.stream, 0) >= other.sequence

    def concurrent_with(self, other: WorkItem) -> bool:
        """True if neither is ordered after the other."""
        return not self.after(other) and not other.after(self)


class Order:
    """Streams, events and the host of one program."""

    def __init__(self) -> None:
        self._default = StreamClock(0, True)
        self._streams: dict[int, StreamClock] = {}
        self._events: dict[int, Clock] = {}
        self._host: Clock = {}
        self._gone: Clock = {}
        self._made = 0

    @property
    def several(self) -> bool:
        """True if a stream other than the default one was created."""
        return self._made > 0

    # ---- streams ----------------------------------------------------------------------------
    def created(self, handle: int, flags: int) -> None:
        self._made += 1
        self._streams[handle] = StreamClock(self._made, not flags & _NON_BLOCKING)

    def destroyed(self, handle: int) -> None:
        """Destroy a stream. Its work continues; only a device synchronisation waits for it."""
        stream = self._streams.pop(handle, None)
        if stream is not None:
            _join(self._gone, stream.clock)
            if stream.blocking:
                _join(self._default.clock, stream.clock)

    def _stream(self, handle: int) -> StreamClock:
        if handle < PER_THREAD:
            return self._default
        if handle == PER_THREAD and handle not in self._streams:
            self.created(handle, 0)
        return self._streams.get(handle, self._default)

    def _reached(self, handle: int) -> tuple[StreamClock, Clock]:
        """A stream and the clock of its next work."""
        stream = self._stream(handle)
        clock = dict(stream.clock)
        _join(clock, self._host)
        # The legacy default stream waits for all blocking streams, and they for it.
        if stream is self._default:
            for other in self._streams.values():
                if other.blocking:
                    _join(clock, other.clock)
        elif stream.blocking:
            _join(clock, self._default.clock)
        return stream, clock

    def submitted(self, handle: int) -> WorkItem:
        """Submit work to a stream."""
        stream, clock = self._reached(handle)
        sequence = clock[stream.number] = clock.get(stream.number, 0) + 1
        stream.clock = clock
        return WorkItem(stream.number, sequence, clock)

    # ---- events -----------------------------------------------------------------------------
    def recorded(self, event: int, handle: int) -> None:
        self._events[event] = self._reached(handle)[1]

    def waits(self, handle: int, event: int) -> None:
        stream = self._stream(handle)
        stream.clock = dict(stream.clock)
        _join(stream.clock, self._events.get(event, {}))

    # ---- the host ---------------------------------------------------------------------------
    def host_waits_for_stream(self, handle: int) -> None:
        _join(self._host, self._reached(handle)[1])

    def host_waits_for_event(self, event: int) -> None:
        _join(self._host, self._events.get(event, {}))

    def host_waits_for_all(self) -> None:
        for stream in (self._default, *self._streams.values()):
            _join(self._host, stream.clock)
        _join(self._host, self._gone)

    def host_learns_of(self, work: WorkItem) -> None:
        """Record that the host observed a signal of this work."""
        _join(self._host, work.clock)

    def ended(self, work: WorkItem) -> bool:
        """True if the host has waited for this work."""
        return self._host.get(work.stream, 0) >= work.sequence


def _join(clock: Clock, other: Clock) -> None:
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count
