"""`cupy.cuda.stream`: streams and events of a GPU whose work is always complete."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from weft.errors import Error
from weft.frontends import activity, clock
from weft.frontends.cupy.device import CUDARuntimeError
from weft.values.time import timeline

_handles = itertools.count(0x1000, 0x100)
_state = threading.local()


class Event:
    """A point in time of the host."""

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self._clock = None if disable_timing else clock.Event()
        self.ptr, self.done = next(_handles), True

    def record(self, stream: object = None) -> None:
        if self._clock is not None:
            self._clock.record(stream)
        activity.note(timeline.RECORDED, stream=activity.handle(stream), number=self.ptr)

    def synchronize(self) -> None:
        """Return at once: launches are synchronous."""
        with activity.call("cudaEventSynchronize"):
            activity.note(timeline.HOST_WAITS_EVENT, number=self.ptr)


def get_elapsed_time(start: Event, end: Event) -> float:
    """Return milliseconds of the simulation, not of a GPU."""
    if start._clock is None or end._clock is None:
        raise CUDARuntimeError(400, "cudaErrorInvalidResourceHandle: an event without timing")
    try:
        return start._clock.elapsed_time(end._clock)
    except RuntimeError as error:
        raise CUDARuntimeError(400, f"cudaErrorInvalidResourceHandle: {error}") from None


class _Stream:
    """A stream; `ptr` is its handle."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        self.ptr, self.device_id = ptr, device_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __enter__(self) -> Any:
        _entered().append(self)
        return self.use()

    def __exit__(self, *_: object) -> None:
        """Return to the stream of the `with` around this one; `use` in between is forgotten."""
        entered = _entered()
        entered.pop()
        (entered[-1] if entered else Stream.null).use()

    def use(self) -> Any:
        """Make it the current stream of this thread."""
        _state.stream = self
        return self

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    @property
    def done(self) -> bool:
        return True

    @property
    def is_non_blocking(self) -> bool:
        return False

    def synchronize(self) -> None:
        """Return at once: launches are synchronous."""
        activity.waited("cudaStreamSynchronize", self)

    def wait_event(self, event: Event) -> None:
        """Return at once: launches are synchronous."""
        activity.note(timeline.WAITS, stream=self.ptr, number=event.ptr)

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def add_callback(self, callback: Callable[[Any, int, Any], None], arg: Any) -> None:
        """Call callback(stream, error, arg): the work before it is complete."""
        callback(self, 0, arg)

    def launch_host_func(self, callback: Callable[[Any], None], arg: Any) -> None:
        """Call callback(arg): the work before it is complete."""
        callback(arg)

    def is_capturing(self) -> bool:
        return False

    def begin_capture(self, mode: object = None) -> None:
        raise Error(
            "cupy streams cannot be captured into a graph here",
            got="Stream.begin_capture",
            next="launch the work directly",
        )


class Stream(_Stream):
    """A new stream, or the default one with null=True."""

    null: Stream
    ptds: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False,
        priority: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(0 if null else 2 if ptds else next(_handles), 0)
        self.non_blocking, self.priority = non_blocking, priority or 0
        if self.ptr:
            activity.note(timeline.CREATED, stream=self.ptr, number=int(non_blocking))

    @property
    def is_non_blocking(self) -> bool:
        return self.non_blocking

    @staticmethod
    def from_external(stream: Any) -> ExternalStream:
        """Return the stream of an object with `__cuda_stream__`, which is kept alive."""
        method = getattr(stream, "__cuda_stream__", None)
        if method is None:
            raise TypeError(f"{type(stream)} does not support the __cuda_stream__ protocol")
        given = method()
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"__cuda_stream__ must return a 2-tuple, got {given!r}")
        version, handle = given
        if not isinstance(version, int) or not isinstance(handle, int):
            raise TypeError(f"__cuda_stream__ must return (int, int), got {given!r}")
        if version != 0:
            raise TypeError(f"unsupported version {version} of __cuda_stream__, expected 0")
        made = ExternalStream(handle)
        made.owner = stream
        return made


class ExternalStream(_Stream):
    """A stream of another library, by its handle."""

    owner: object = None


Stream.null, Stream.ptds = Stream(null=True), Stream(ptds=True)


def _entered() -> list[Any]:
    """Return the streams of the `with` blocks that this thread is in."""
    if not hasattr(_state, "entered"):
        _state.entered = []
    found: list[Any] = _state.entered
    return found


def get_current_stream(device_id: int = -1) -> Any:
    """Return the current stream of this thread."""
    return getattr(_state, "stream", Stream.null)


activity.streams.append(lambda: int(get_current_stream().ptr))
