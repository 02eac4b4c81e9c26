"""A kernel with its shape on one GPU: what all launches there have in common."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from weft.device.arguments import Packer
from weft.device.base import Place
from weft.device.gpu import driver, pending, streams
from weft.device.gpu.call import Call
from weft.device.gpu.native import Native, native
from weft.device.gpu.quick import Quick, Shortcut, shortcut
from weft.device.time_limit import limited
from weft.errors import TimeLimit

_PAUSE = 0.001
"""Seconds between two looks at a launch that has a time limit."""


class GpuPlan:
    """Launches on the stream that was given, or the one that is current where the arrays are."""

    def __init__(self, packer: Packer, call: Call, stream: object) -> None:
        self.call, self._packer = call, packer
        self._stream = None if stream is None else streams.handle(stream)
        self._shortcuts: dict[str, Shortcut | None] = {}

    def run(self, params: bytes, place: Place | None, time_limit: float | None) -> None:
        """Launches; returns at once unless there is a time limit."""
        stream = self._current(place)()
        self.call.run(params, stream)
        if time_limit is not None:
            self._await(stream, time_limit)

    def quick(self, args: Sequence[Any], library: str) -> Quick | None:
        """The short way for arguments like these, which the long way has found to be right."""
        if library not in self._shortcuts:
            self._shortcuts[library] = shortcut(self._packer, self.call, self._stream, library)
        found = self._shortcuts[library]
        if found is None:
            return None
        found.learn(self._packer, args)
        return found.run

    def native(self, args: Sequence[Any]) -> Native | None:
        """The shortest way for arguments like these, where there is one."""
        return native(self._packer, self.call, self._stream, args)

    def bind(self, params: bytes, place: Place | None, args: Sequence[Any]) -> Callable[[], None]:
        """A launch with these parameters, on what is then the current stream."""
        current = self._current(place)
        found = native(self._packer, self.call, self._stream, args, params)
        if found is None:
            return self.call.bound(params, current, args)

        def launch() -> None:
            if found.launch():  # the longer way mends it, or says what is wrong
                self.call.run(params, current())

        return launch

    def _current(self, place: Place | None) -> Callable[[], int]:
        given = self._stream
        if given is None and place is not None:
            if place.library or place.stream is None:
                return functools.partial(streams.getter(place.library), place.device)
            given = place.stream
        return lambda: given or 0

    def _await(self, stream: int, seconds: float) -> None:
        limit = limited(seconds)
        assert limit is not None
        while code := self._state(stream):
            if code != driver.NOT_READY:
                raise pending.failure(code)
            if not limit.left:
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
