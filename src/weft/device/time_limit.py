"""Time limits of launches: from the call to the end of the kernel, compiling included."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from weft.errors import ArgumentError, TimeLimit

T = TypeVar("T")


class Limit(float):
    """A number of seconds, counted from the creation of the limit."""

    end: float

    def __new__(cls, seconds: float) -> Limit:
        limit = super().__new__(cls, seconds)
        limit.end = time.monotonic() + seconds
        return limit

    @property
    def left(self) -> float:
        """Seconds that are left, not below 0."""
        return max(0.0, self.end - time.monotonic())


def limited(seconds: object) -> Limit | None:
    """The argument of `time_limit=`, checked; a limit that has begun continues."""
    if seconds is None or isinstance(seconds, Limit):
        return seconds
    number = seconds if isinstance(seconds, int | float) else 0
    if isinstance(seconds, bool) or not number > 0:
        raise ArgumentError(
            "time_limit is a number of seconds",
            got=f"{type(seconds).__name__} {seconds!r}",
            allowed="a number above 0, or None for no limit",
        )
    return Limit(float(min(number, threading.TIMEOUT_MAX)))  # an int may be beyond every float


def within(limit: float | None, name: str, make: Callable[[], T]) -> T:
    """Return the result of `make`, which compiles a kernel; TimeLimit when that takes too long.

    The end of the compiler counts, not the moment at which a busy machine gets to look at it.
    A compiler cannot be stopped: it continues in its thread, and the next launch finds its code.
    The process waits for it at exit, since LLVM crashes when its data are freed while it works.
    """
    limit = limited(limit)
    if limit is None:
        return make()
    outcome: list[T] = []
    ended: list[float] = []
    errors: list[BaseException] = []
    # Settings of the caller that are context variables apply in the thread as well.
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.append(context.run(make))
        except BaseException as error:  # for the thread that waits
            errors.append(error)
        ended.append(time.monotonic())

    thread = threading.Thread(target=work, name="weft compiles", daemon=False)
    thread.start()
    thread.join(limit.left)
    if errors:
        raise errors[0]
    if not ended or ended[0] > limit.end:
        raise TimeLimit(
            f"{name} ran past its time limit",
            got=f"still compiling after {limit} s",
            next="raise time_limit=, or launch it once without: compiled code is kept",
        )
    return outcome[0]
