"""Prints a progress line while something compiles, for commands that run a user's file.

It is off by default. Where standard error is no terminal, only the build of a whole program prints
a line. `around` is entered in any case.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

AFTER = 0.5
"""Seconds before the line is printed; most kernels compile faster."""

Notify = Callable[[str], None]
"""Called with what is done next."""

enabled = False

around: Callable[[], AbstractContextManager[Any]] = nullcontext
"""Entered while something compiles, so that a process which holds a GPU can let others use it."""


def say(what: str) -> None:
    """Print a line on a terminal immediately."""
    if enabled and sys.stderr is not None and sys.stderr.isatty():
        _print(what)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Print a line on a terminal if the code inside takes long."""
    with around(), _later(say, f"compiling {what}") if enabled else nullcontext():
        yield


@contextmanager
def building(what: str) -> Iterator[None]:
    """Print a line on a terminal immediately, elsewhere if the code inside takes long."""
    say(f"compiling {what}")
    piped = enabled and sys.stderr is not None and not sys.stderr.isatty()
    with _later(_print, f"compiling {what} (first run)") if piped else nullcontext():
        yield


def _print(what: str) -> None:
    print(f"weft: {what}", file=sys.stderr, flush=True)


@contextmanager
def _later(act: Callable[[str], None], what: str) -> Iterator[None]:
    """Calls a function if the code inside takes long."""
    timer = threading.Timer(AFTER, act, (what,))
    # Must not keep the process alive if it exits meanwhile.
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
