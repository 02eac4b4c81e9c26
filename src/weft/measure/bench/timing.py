"""Measures device time with events around a CUDA graph of many calls, or around plain calls.

A graph of n calls reduces the gaps between launches to what the device needs. If a call cannot be
captured (it synchronises, or allocates outside of the pool), events enclose plain calls, and the
record states this.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.device import driver

Call = Callable[[int], Any]
"""Runs a contender on input set i."""

SAMPLE_MS = 1.0
"""The least duration of a sample: the event clock has a resolution of half a microsecond."""

MOST_CALLS = 200


@dataclass(frozen=True)
class Prepared:
    """A contender that is ready to be timed; `go` runs `calls` calls."""

    go: Callable[[], None]
    calls: int
    how: str


class TimingStream:
    """The stream for all timings, and its events."""

    def __init__(self) -> None:
        torch = sys.modules.get("torch")
        self.torch: Any = torch if torch is not None and torch.cuda.is_available() else None
        self._library = driver.library()
        self._events = [self._event(), self._event()]

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        driver.device(0).set_current()
        driver.check(self._library.cuEventCreate(ctypes.byref(event), 0), "making an event")
        return event

    @property
    def handle(self) -> ctypes.c_void_p:
        """torch's current stream, or the default stream."""
        return ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream if self.torch else 0)

    def milliseconds(self, work: Callable[[], None]) -> float:
        """The device time of some work."""
        self.begin()
        work()
        return self.end()

    def begin(self) -> None:
        """Start the timing of the stream's work."""
        driver.check(
            self._library.cuEventRecord(self._events[0], self.handle), "recording an event"
        )

    def end(self) -> float:
        """Wait for the work and return the milliseconds since `begin`."""
        start, end = self._events
        lib, out = self._library, ctypes.c_float()
        driver.check(lib.cuEventRecord(end, self.handle), "recording an event")
        driver.check(lib.cuEventSynchronize(end), "waiting for a timed kernel")
        # Newer drivers export the versioned symbol.
        elapsed = getattr(lib, "cuEventElapsedTime_v2", None) or lib.cuEventElapsedTime
        driver.check(elapsed(ctypes.byref(out), start, end), "reading a time")
        return float(out.value)

    def wait(self) -> None:
        driver.check(self._library.cuCtxSynchronize(), "waiting for the device")


def prepare(stream: TimingStream, call: Call, sets: int, *, graph: bool = True) -> Prepared:
    """Choose the number of calls per sample, and capture them in a graph if possible."""
    # The first calls compile and allocate, which a capture does not allow.
    for i in range(min(sets, 3)):
        call(i)
    stream.wait()
    # The minimum is closest to the undisturbed time.
    once = min(stream.milliseconds(lambda: call(0)) for _ in range(3))
    calls = max(sets, min(MOST_CALLS, int(SAMPLE_MS / max(once, 1e-3)) + 1))
    if graph and stream.torch is not None:
        captured = _captured(stream.torch, call, calls, sets)
        if captured is not None:
            return Prepared(captured.replay, calls, f"graph of {calls} calls")

    def plain() -> None:
        for i in range(calls):
            call(i % sets)

    return Prepared(plain, calls, f"{calls} calls between events")


def _captured(torch: Any, call: Call, calls: int, sets: int) -> Any:
    """A graph of the calls, or None where they cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for i in range(calls):
                call(i % sets)
    except RuntimeError:  # raised for a call that cannot be captured
        torch.cuda.synchronize()
        return None
    return graph
