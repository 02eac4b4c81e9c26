"""A kernel with its launch configuration on one GPU: all that its launches there share."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from weft.device import driver
from weft.device.arguments import Packer
from weft.device.base import ArrayPlace, FastPath, Packed
from weft.device.gpu import pending, streams
from weft.device.gpu.call import KernelCall
from weft.device.gpu.fast_launch import FastLaunch, fast_launch
from weft.device.gpu.native_launch import NativeLaunch, native_launch
from weft.device.time_limit import limited
from weft.errors import TimeLimit

_PAUSE = 0.001
"""Seconds between two queries of a launch that has a time limit."""


class GpuPlan:
    """Launches on the stream that was given, or on the current one of the arrays' library."""

    def __init__(self, packer: Packer, call: KernelCall, stream: object) -> None:
        self.call, self._packer = call, packer
        self._stream = None if stream is None else streams.handle(stream)
        self._fast: dict[str, FastLaunch | None] = {}
        self._native: NativeLaunch | None = None

    def run(self, args: Sequence[Any], packed: Packed, time_limit: float | None) -> FastPath | None:
        """Launch; return at once unless there is a time limit."""
        params, _, _, place = packed
        stream = self._current(place)()
        self.call.run(params, stream)
        if time_limit is not None:
            self._await(stream, time_limit)
        return None if place is None else self._fast_path(args, place.library)

    def bind(self, args: Sequence[Any], packed: Packed) -> Callable[[], None]:
        """A launch with these parameters, on the stream that is then current."""
        params, _, _, place = packed
        current = self._current(place)
        native = native_launch(self._packer, self.call, self._stream, args, params)
        if native is None:
            return self.call.bound(params, current, args)

        def launch() -> None:
            if native.launch():  # the slow path makes the context current, or raises the error
                self.call.run(params, current())

        return launch

    def _fast_path(self, args: Sequence[Any], library: str) -> FastPath:
        """The fast path for arguments like these, which the slow path has checked."""
        if library not in self._fast:
            self._fast[library] = fast_launch(self._packer, self.call, self._stream, library)
        fast = self._fast[library]
        if fast is not None:
            fast.learn(self._packer, args)
        if self._native is None:
            self._native = native_launch(self._packer, self.call, self._stream, args)
        native = self._native
        return FastPath(
            native=None if native is None else native.launch,
            python=None if fast is None else fast.run,
        )

    def _current(self, place: ArrayPlace | None) -> Callable[[], int]:
        stream = self._stream
        if stream is None and place is not None:
            # The current stream of the array's library is asked for at each launch. A stream that
            # an array names itself stays.
            if place.library or place.stream is None:
                return functools.partial(streams.getter(place.library), place.device)
            stream = place.stream
        return lambda: stream or 0

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
        # The default stream belongs to the context that is current.
        with driver.current(self.call.device):
            return driver.query(stream)
