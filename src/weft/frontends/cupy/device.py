"""The part of `cupy.cuda` that scripts use around kernels: one device, whose work is complete."""

from __future__ import annotations

import time

from weft.device.models import DEFAULT, get


class Stream:
    """A stream whose work is always complete."""

    null: Stream
    ptr = 0

    def __init__(self, *_: object, **__: object) -> None:
        """All streams are the same."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def use(self) -> Stream:
        return self

    def synchronize(self) -> None:
        """Returns at once: launches are synchronous."""

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def wait_event(self, event: object) -> None:
        """Returns at once: launches are synchronous."""


Stream.null = Stream()


class Event:
    """A point in time of the host."""

    def __init__(self, *_: object, **__: object) -> None:
        self.seconds = 0.0

    def record(self, stream: object = None) -> None:
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        """Returns at once: launches are synchronous."""


class Device:
    """The simulated GPU."""

    def __init__(self, device: int = 0) -> None:
        self.id = device

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def use(self) -> None:
        """There is one device."""

    def synchronize(self) -> None:
        """Returns at once: launches are synchronous."""

    @property
    def compute_capability(self) -> str:
        major, minor = get(DEFAULT).compute_capability
        return f"{major}{minor}"

    @property
    def attributes(self) -> dict[str, int]:
        model = get(DEFAULT)
        return {"MultiProcessorCount": model.sms, "MaxThreadsPerBlock": model.max_threads_per_block}


def get_elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds of the host, not of a GPU."""
    return 1000 * (end.seconds - start.seconds)


def get_current_stream() -> Stream:
    return Stream.null


def is_available() -> bool:
    return True
