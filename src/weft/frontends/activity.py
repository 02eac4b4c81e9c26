"""Records what a script or program asks of the GPU, for a timeline.

Nothing is recorded unless `current` is set; each function returns at once then. Front ends call
the functions; `weft.measure.timeline` makes a timeline of the record.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.values.time import timeline
from weft.values.time.timeline import Activity

Function = Callable[..., Any]


class Activities:
    """The activities of one process in the order in which they happened."""

    def __init__(self) -> None:
        self.rows: list[Activity] = []
        self._threads: dict[int, int] = {}

    def add(
        self, what: str, name: str = "", stream: int = 0, number: int = 0, **facts: Any
    ) -> None:
        self.rows.append(Activity(what, self._thread(), name, stream, number, facts))

    def _thread(self) -> int:
        """A small number for this thread: the first one is 1."""
        return self._threads.setdefault(threading.get_ident(), len(self._threads) + 1)


current: Activities | None = None
"""The record of this process; None: nothing is recorded."""

streams: list[Callable[[], int]] = []
"""Functions that return the current stream of a front end, 0 for the default one."""
_chosen = threading.local()


def note(what: str, name: str = "", stream: int = 0, number: int = 0, **facts: Any) -> None:
    """Record an activity."""
    if current is not None:
        current.add(what, name, stream, number, **facts)


@contextmanager
def call(name: str) -> Iterator[None]:
    """Record a call of the host, which the block makes; calls inside of it are its own."""
    if current is None or getattr(_chosen, "calls", False):
        yield
        return
    _chosen.calls = True
    current.add(timeline.CALL, name)
    try:
        yield
    finally:
        _chosen.calls = False
        current.add(timeline.RETURN, name)


def called(name: str, function: Function) -> Function:
    """The function, with its calls recorded under this name."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        if current is None:
            return function(*args, **options)
        with call(name):
            return function(*args, **options)

    return run


@contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Let the launches inside belong to a stream."""
    before = getattr(_chosen, "stream", None)
    _chosen.stream = int(stream or 0)
    try:
        yield
    finally:
        _chosen.stream = before


def stream() -> int:
    """The stream of the next launch of this thread."""
    chosen: int | None = getattr(_chosen, "stream", None)
    if chosen is not None:
        return chosen
    return next(filter(None, (current() for current in streams)), 0)


def handle(given: Any) -> int:
    """The handle of a stream object; of None, the current stream."""
    if given is None:
        return stream()
    protocol = getattr(given, "__cuda_stream__", None)
    return int(protocol()[1] if protocol is not None else getattr(given, "handle", given) or 0)


def waited(name: str, given: Any = None, *, everything: bool = False) -> None:
    """Record a call that waits for a stream, or for all work."""
    if current is not None:
        what = timeline.HOST_WAITS_ALL if everything else timeline.HOST_WAITS_STREAM
        with call(name):
            current.add(what, stream=0 if everything else handle(given))


def copied(
    direction: str, nbytes: int, *, stream: int = 0, pageable: bool = True, memory: int = 0,
    waits: bool | None = None,
) -> None:  # fmt: skip
    """Record a copy; the host waits for it where its memory is pageable, if not said otherwise.

    memory  the address on the device
    """
    if current is None:
        return
    between = direction != timeline.ON_DEVICE
    current.add(
        timeline.COPY, direction, stream, bytes=nbytes, pageable=pageable and between,
        memory=[(memory, nbytes)] if memory else [],
    )  # fmt: skip
    if (pageable and between) if waits is None else waits:
        current.add(timeline.HOST_WAITS_STREAM, stream=stream)


def launched(profile: int, name: str, shape: Any, memory: Sequence[tuple[int, int]]) -> None:
    """Record a kernel that ran under a profile with this number; `memory`: starts and bytes."""
    if current is not None:
        current.add(
            timeline.KERNEL, name, stream(), profile, grid=list(shape.grid),
            block=list(shape.block), shared=shape.static_shared + shape.dynamic_shared,
            memory=list(memory),
        )  # fmt: skip
