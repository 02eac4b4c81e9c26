"""`cupyx.profiler`: times of calls, which are those of the simulation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.frontends import clock


class _Times:
    """The times of a benchmark, in seconds."""

    def __init__(self, name: str, seconds: Sequence[float]) -> None:
        self.name = name
        self.cpu_times, self.gpu_times = np.array(seconds), np.array([seconds])

    def __repr__(self) -> str:
        shown = []
        for word, times in (("CPU", self.cpu_times), ("GPU-0", self.gpu_times[0])):
            us = times * 1e6
            shown.append(f"{word}: {us.mean():9.3f} us   +/- {us.std():6.3f}")
        return f"{self.name:<20s}:    {'     '.join(shown)}"

    __str__ = __repr__


def benchmark(
    func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None,
    n_repeat: int = 10000, *, name: str | None = None, n_warmup: int = 10,
    max_duration: float = float("inf"), devices: object = None,
) -> _Times:  # fmt: skip
    """Call a function again and again, and return its times."""
    clock.say_once()
    for _ in range(n_warmup):
        func(*args, **(kwargs or {}))
    seconds: list[float] = []
    while len(seconds) < n_repeat and sum(seconds) < max_duration:
        start = time.perf_counter()
        func(*args, **(kwargs or {}))
        seconds.append(time.perf_counter() - start)
    return _Times(name or str(getattr(func, "__name__", "function")), seconds)


repeat = benchmark


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Do nothing more: `weft profile` profiles scripts."""
    yield


@contextlib.contextmanager
def time_range(*_: Any, **__: Any) -> Iterator[None]:
    """Do nothing more: ranges have no effect on results."""
    yield
