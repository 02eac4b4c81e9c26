"""Threads of the host for launches: made when they are needed, and kept for the next launch.

A launch waits tens of microseconds here, where `concurrent.futures` takes three times as long.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

Task = Callable[[], int]
_Done = queue.SimpleQueue[tuple[int, int | BaseException]]

_idle: list[_Thread] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child has none of its parent's threads


def thread_count() -> int:
    """Host threads a launch may use: WEFT_THREADS, or the cores this process may run on."""
    threads = os.environ.get("WEFT_THREADS")
    if threads and threads.isdigit() and int(threads) > 0:
        return int(threads)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class _Thread:
    """One thread; between two tasks it is idle and any launch may take it."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[int, Task, _Done]] = queue.SimpleQueue()
        # A daemon: it must not keep the process alive, and deadlock detection does not count it as
        # a thread that may write.
        threading.Thread(target=self._work, name="weft", daemon=True).start()

    def give(self, number: int, task: Task, done: _Done) -> None:
        self._tasks.put((number, task, done))

    def _work(self) -> None:
        while True:
            self._one(*self._tasks.get())

    def _one(self, number: int, task: Task, done: _Done) -> None:
        """A call of its own, so that a waiting thread holds on to nothing."""
        outcome: int | BaseException
        try:
            outcome = task()
        except BaseException as error:  # for the thread that waits
            outcome = error
        # First idle, then done: the next launch of the thread that waits finds this one free.
        _idle.append(self)
        done.put((number, outcome))


class ThreadTasks:
    """Tasks that run at the same time, each in a thread of its own."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._done: _Done = queue.SimpleQueue()
        self._outcomes: dict[int, int | BaseException] = {}
        self._count = len(tasks)
        for number, task in enumerate(tasks):
            _thread().give(number, task, self._done)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for all; return False when the time is over first."""
        end = None if seconds is None else time.monotonic() + seconds
        while len(self._outcomes) < self._count:
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                number, outcome = self._done.get(timeout=left)
            except queue.Empty:
                return False
            self._outcomes[number] = outcome
        return True

    def results(self) -> list[int]:
        """The results of all tasks; raises the exception of one that failed."""
        out = []
        for number in range(self._count):
            outcome = self._outcomes[number]
            if isinstance(outcome, BaseException):
                raise outcome
            out.append(outcome)
        return out


def _thread() -> _Thread:
    try:
        return _idle.pop()
    except IndexError:
        return _Thread()
