"""Tracks the order that CUDA guarantees between work items, with vector clocks per stream.

Only calls count, never when work happens to run: work is ordered after what came before it in its
stream, after what its stream waits for, and after what the host had waited for when it submitted
it. The default stream of a device and its blocking streams wait for each other. The host is one
thread: what one of its threads has waited for counts as known to all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Clock = dict[int, int]
"""Stream number -> number of its work items that are known to be complete."""

DEFAULT, PER_THREAD = 0, 2
"""Handles of predefined streams; 1 is an alias of the default stream."""
DEVICE_SHIFT = 8
"""Handles of predefined streams and flags of others have the number of the device above this."""
_BELOW_DEVICE = (1 << DEVICE_SHIFT) - 1
_PREDEFINED = 1 << 16
"""Handles of other streams are addresses, which are larger."""
_NON_BLOCKING = 1


@dataclass(slots=True)
class StreamClock:
    """A stream and the clock of its next work."""

    number: int
    blocking: bool
    device: int = 0
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
    """Streams, events and the host of one program on so many devices."""

    def __init__(self, devices: int = 1) -> None:
        # The numbers of default streams are not above zero, those of others are.
        self._defaults = [StreamClock(-device, True, device) for device in range(devices)]
        self._streams: dict[int, StreamClock] = {}
        self._events: dict[int, Clock] = {}
        self._host: Clock = {}
        self._gone: list[Clock] = [{} for _ in range(devices)]
        self._devices: list[int] = [0]

    @property
    def several(self) -> bool:
        """True if there is a stream besides the default one of the first device."""
        return len(self._devices) > 1 or len(self._defaults) > 1

    def name_of(self, stream: int) -> str:
        """The name of a stream in a finding, by its number."""
        name = f"stream {stream}" if stream > 0 else "the default stream"
        if len(self._defaults) == 1:
            return name
        return f"{name} of device {self.device_of(stream)}"

    def device_of(self, stream: int) -> int:
        """The device of a stream, by its number."""
        return self._devices[stream] if stream > 0 else -stream

    # ---- streams ----------------------------------------------------------------------------
    def created(self, handle: int, flags: int) -> None:
        number, device = len(self._devices), flags >> DEVICE_SHIFT
        self._devices.append(device)
        self._streams[handle] = StreamClock(number, not flags & _NON_BLOCKING, device)

    def destroyed(self, handle: int) -> None:
        """Destroy a stream. Its work continues; only a device synchronisation waits for it."""
        stream = self._streams.pop(handle, None)
        if stream is not None:
            _join(self._gone[stream.device], stream.clock)
            if stream.blocking:
                _join(self._defaults[stream.device].clock, stream.clock)

    def _stream(self, handle: int) -> StreamClock:
        device, kind = handle >> DEVICE_SHIFT, handle & _BELOW_DEVICE
        if handle >= _PREDEFINED or kind > PER_THREAD:
            return self._streams.get(handle, self._defaults[0])
        if kind != PER_THREAD:
            return self._defaults[device]
        if handle not in self._streams:
            self.created(handle, device << DEVICE_SHIFT)
        return self._streams[handle]

    def _reached(self, handle: int) -> tuple[StreamClock, Clock]:
        """A stream and the clock of its next work."""
        stream = self._stream(handle)
        clock = dict(stream.clock)
        _join(clock, self._host)
        # The legacy default stream waits for all blocking streams of its device, they for it.
        default = self._defaults[stream.device]
        if stream is default:
            for other in self._streams.values():
                if other.blocking and other.device == stream.device:
                    _join(clock, other.clock)
        elif stream.blocking:
            _join(clock, default.clock)
        return stream, clock

    def submitted(self, handle: int) -> WorkItem:
        """Submit work to a stream."""
        stream, clock = self._reached(handle)
        sequence = clock[stream.number] = clock.get(stream.number, 0) + 1
        stream.clock = clock
        return WorkItem(stream.number, sequence, clock)

    def joined(self, handle: int, other: int) -> None:
        """Order what follows in either stream after both."""
        one, clock = self._reached(handle)
        two, theirs = self._reached(other)
        _join(clock, theirs)
        one.clock, two.clock = clock, dict(clock)

    # ---- events -----------------------------------------------------------------------------
    def recorded(self, event: int, handle: int) -> None:
        self._events[event] = self._reached(handle)[1]

    def waits(self, handle: int, event: int) -> None:
        stream = self._stream(handle)
        stream.clock = dict(stream.clock)
        _join(stream.clock, self._events.get(event, {}))

    def work_waits(self, work: WorkItem, event: int) -> None:
        """Order the end of work, and what follows in its stream, after an event."""
        for stream in (*self._defaults, *self._streams.values()):
            if stream.number == work.stream:
                _join(stream.clock, self._events.get(event, {}))
        _join(work.clock, self._events.get(event, {}))

    # ---- the host ---------------------------------------------------------------------------
    def host_waits_for_stream(self, handle: int) -> None:
        _join(self._host, self._reached(handle)[1])

    def host_waits_for_event(self, event: int) -> None:
        _join(self._host, self._events.get(event, {}))

    def host_waits_for_device(self, device: int) -> None:
        for stream in (*self._defaults, *self._streams.values()):
            if stream.device == device:
                _join(self._host, stream.clock)
        _join(self._host, self._gone[device])

    def host_waits_for_all(self) -> None:
        for device in range(len(self._defaults)):
            self.host_waits_for_device(device)

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
