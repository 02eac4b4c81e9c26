"""The functions of the Python package `nvtx`: ranges and marks, which a timeline shows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from weft.frontends import activity
from weft.values.time import timeline

__all__ = ["annotate", "end_range", "mark", "pop_range", "push_range", "start_range"]

_numbers = itertools.count(1)


def _named(message: str | None, domain: str | None) -> str:
    return f"{domain}:{message or ''}" if domain else message or ""


def push_range(
    message: str | None = None, color: Any = None, domain: str | None = None, **_: Any
) -> None:
    """Begin a range of this thread."""
    activity.note(timeline.PUSH, _named(message, domain))


def pop_range(domain: str | None = None) -> None:
    """End the range of this thread that began last."""
    activity.note(timeline.POP)


def start_range(
    message: str | None = None, color: Any = None, domain: str | None = None, **_: Any
) -> tuple[int, int]:
    """Begin a range that any thread may end; return its number."""
    number = next(_numbers)
    activity.note(timeline.START, _named(message, domain), number=number)
    return number, 0


def end_range(range_id: tuple[int, int]) -> None:
    """End a range that `start_range` began."""
    activity.note(timeline.END, number=range_id[0])


def mark(
    message: str | None = None, color: Any = None, domain: str | None = None, **_: Any
) -> None:
    """Mark a point in time."""
    activity.note(timeline.MARK, _named(message, domain))


class annotate:
    """A range as `with nvtx.annotate("name"):` or as a decorator of a function."""

    def __init__(
        self, message: str | None = None, color: Any = None, domain: str | None = None, **_: Any
    ) -> None:
        self.message, self.domain = message, domain

    def __enter__(self) -> annotate:
        push_range(self.message, domain=self.domain)
        return self

    def __exit__(self, *_: object) -> None:
        pop_range(self.domain)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        message = self.message or function.__name__

        @functools.wraps(function)
        def inner(*args: Any, **options: Any) -> Any:
            with annotate(message, domain=self.domain):
                return function(*args, **options)

        return inner
