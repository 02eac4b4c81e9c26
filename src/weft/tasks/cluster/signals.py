"""Signals by which a batch system ends a job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def terminated() -> Iterator[list[int]]:
    """Collect the signals by which a batch system ends a job; what was measured is still shown."""
    ended: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)
