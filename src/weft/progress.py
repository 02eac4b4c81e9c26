"""Prints a progress line while something compiles, for commands that run a user's file.

It is off by default, and prints only if standard error is a terminal. `around` is entered in any
case.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

AFTER = 0.5
"""Seconds before the line is printed; most kernels compile faster."""

enabled = False

around: Callable[[], AbstractContextManager[Any]] = nullcontext
"""Entered while something compiles, so that a process which holds a GPU can let others use it."""


def say(what: str) -> None:
    """Prints a line immediately."""
    if enabled and sys.stderr is not None and sys.stderr.isatty():
        print(f"weft: {what}", file=sys.stderr, flush=True)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Prints a line if the code inside takes long."""
    if not enabled:
        with around():
            yield
        return
    timer = threading.Timer(AFTER, say, (f"compiling {what}",))
    # Must not keep the process alive if it exits meanwhile.
    timer.daemon = True
    timer.start()
    try:
        with around():
            yield
    finally:
        timer.cancel()
