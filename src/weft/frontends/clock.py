"""Events of the simulated GPU, which measure the time of the simulation."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

from weft.frontends import activity
from weft.values.time import timeline

NOTICE = "weft: times measured here are those of the simulation on this CPU, not of a GPU"
_LEAST_MS = 1e-3
"""The least elapsed time: benchmarks divide by it."""
_CHEAP_MS = 1e3
"""A call that takes less is repeated to time it without its compilation."""


@functools.cache
def say_once() -> None:
    """Warn, once per process, that measured times are times of the simulation."""
    print(NOTICE, file=sys.stderr)


class Event:
    """A CUDA event. Launches are synchronous here, so it records the current time."""

    def __init__(self, enable_timing: bool = False, **_: object) -> None:
        self._at: float | None = None

    def record(self, stream: object = None) -> None:
        self._at = time.perf_counter()
        activity.note(timeline.RECORDED, stream=activity.handle(stream), number=id(self))

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        if self._at is None or end._at is None:
            raise RuntimeError("both events must be recorded before calculating elapsed time")
        say_once()
        return max((end._at - self._at) * 1e3, _LEAST_MS)

    def synchronize(self) -> None:
        """Return at once: launches are synchronous."""
        with activity.call("cudaEventSynchronize"):
            activity.note(timeline.HOST_WAITS_EVENT, number=id(self))

    def wait(self, stream: object = None) -> None:
        """Return at once: launches are synchronous."""
        activity.note(timeline.WAITS, stream=activity.handle(stream), number=id(self))

    def query(self) -> bool:
        return True


def bench(call: Callable[[], Any]) -> float:
    """Milliseconds of one call. The first compiles, so a second is timed if that is cheap."""
    say_once()
    took = _timed(call)
    return _timed(call) if took < _CHEAP_MS else took


def _timed(call: Callable[[], Any]) -> float:
    begin, end = Event(), Event()
    begin.record()
    call()
    end.record()
    return begin.elapsed_time(end)
