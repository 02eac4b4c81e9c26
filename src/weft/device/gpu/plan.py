"""A kernel with its shape on one GPU: what all launches there have in common."""

from __future__ import annotations

import time

from weft.device.arguments import Place
from weft.device.gpu import driver, pending, streams
from weft.device.gpu.call import Call
from weft.errors import TimeLimit

_PAUSE = 0.001
"""Seconds between two looks at a launch that has a time limit."""


class GpuPlan:
    """Launches on the stream that was given, or the one that is current where the arrays are."""

    def __init__(self, call: Call, stream: object) -> None:
        self.call = call
        self._stream = None if stream is None else streams.handle(stream)

    def run(self, params: bytes, place: Place | None, time_limit: float | None) -> None:
        """Launches; returns at once unless there is a time limit."""
        stream = self._stream if self._stream is not None else _stream_of(place)
        self.call.run(params, stream)
        if time_limit is not None:
            self._await(stream, time_limit)

    def _await(self, stream: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while code := self._state(stream):
            if code != driver.NOT_READY:
                raise pending.failure(code)
            if time.monotonic() >= deadline:
                error = TimeLimit(
                    f"{self.call.name} still runs after {seconds} s",
                    next="it goes on running: a GPU cannot be told to stop a kernel; "
                    "end the process, or rerun it on the simulated GPU",
                )
                error.kernel = self.call.name
                raise error
            time.sleep(_PAUSE)

    def _state(self, stream: int) -> int:
        with driver.current(self.call.device):
            return driver.query(stream)


def _stream_of(place: Place | None) -> int:
    if place is None:
        return 0
    if place.stream is not None and not place.library:
        return place.stream
    return streams.current(place.library, place.device)
