"""A line on the terminal while something compiles, for verbs that run a user's file.

Off unless a verb turns it on; nothing is printed where standard error is no terminal.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AFTER = 0.5
"""Seconds that pass before a line is printed: most kernels are compiled by then."""

enabled = False


def say(what: str) -> None:
    """Prints the line at once."""
    if enabled and sys.stderr is not None and sys.stderr.isatty():
        print(f"weft: {what}", file=sys.stderr, flush=True)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Prints a line when the code inside takes long."""
    if not enabled:
        yield
        return
    timer = threading.Timer(AFTER, say, (f"compiling {what}",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
