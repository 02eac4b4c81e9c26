"""Streams, events and device contexts of one simulated device, whose launches are synchronous."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from weft.frontends import activity, clock
from weft.frontends.pytorch import devices, graphs
from weft.values.time import timeline

_numbers = itertools.count(1)
_default: Stream


class Stream:
    """A CUDA stream whose work is always complete."""

    device_type = 1

    def __init__(self, device: object = None, priority: int = 0, **_: object) -> None:
        self.priority = priority
        self.device, self.device_index = devices.current(), devices.index()
        self.cuda_stream = self.stream_id = next(_numbers)
        self._before: list[Stream] = []
        # Streams of torch do not wait for the default one.
        activity.note(timeline.CREATED, stream=self.cuda_stream, number=1)

    def __enter__(self) -> Stream:
        self._before.append(current())
        set_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        set_current(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which other libraries take a stream: (version, handle)."""
        return 0, self.cuda_stream

    def record_event(self, event: clock.Event | None = None) -> clock.Event:
        event = event or clock.Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Return at once: launches are synchronous."""
        activity.waited("cudaStreamSynchronize", self)

    def wait_event(self, event: clock.Event) -> None:
        """Return at once: launches are synchronous."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Return at once: launches are synchronous."""
        if activity.current is not None:
            self.wait_event(stream.record_event())

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return graphs.capture() is not None


class ExternalStream(Stream):
    """A stream of another library, known by its handle."""

    def __init__(self, stream_ptr: int, device: object = None, **_: object) -> None:
        super().__init__()
        self.cuda_stream = int(stream_ptr)


class StreamContext:
    """`with torch.cuda.stream(s):`; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            self.stream.__exit__()


def on_cpu(device: Any) -> Any:
    """Map CUDA devices to the CPU; other devices are unchanged. Raise if there is no such GPU."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        devices.check(int(device.partition(":")[2] or 0))
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        devices.check(device.index or 0)
        return torch.device("cpu")
    return device


def current(device: Any = None) -> Stream:
    """The stream that the script has selected."""
    return _current[-1]


def default(device: Any = None) -> Stream:
    """The default stream, number 0."""
    return _default


def synchronize(device: Any = None) -> None:
    """Return at once: launches are synchronous."""
    activity.waited("cudaDeviceSynchronize", everything=True)


def set_current(stream: Stream | None) -> None:
    """Select a stream; None changes nothing, as in torch."""
    if stream is not None:
        _current[:] = [stream]


_default = Stream()
_default.cuda_stream = _default.stream_id = 0
_current = [_default]
