"""Ctrl-C while a launch runs: a call instead of an exception, which could come anywhere."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts(call: Callable[[], None]) -> Iterator[None]:
    """Call a function at Ctrl-C, inside of a `with` block of the main thread."""
    python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not python or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: call())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
