"""Run tasks in several processes, and replace a process that breaks, dies or hangs.

A CUDA error makes a process useless for any later call, and a crash ends it. Either costs one task:
a new process takes the next one.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from multiprocessing.connection import Connection, wait
from typing import Any

from weft.errors import Error

PATIENCE = 240.0
"""Seconds that a task may take before its process is ended."""
GRACE = 3.0
"""Seconds after the end in which begun tasks may still be finished."""
TICK = 0.5
"""Seconds after which `stop` is called again."""
READY = "ready"
"""The first message of a process."""


@dataclass(frozen=True)
class Answer:
    """The answer of a process to a task.

    value   the result
    again   the task to do instead, in another process; there is no value then
    broken  True if the process can do no more tasks
    """

    value: Any = None
    again: Any = None
    broken: bool = False


Start = Callable[[], Callable[[Any], Answer]]
"""Called once in each process; returns the function that does a task."""
Pool = Callable[..., Iterator[tuple[int, Answer | None]]]
"""`run` with its workers: called with tasks, and by name with `start`, `limit` and `stop`."""


class _State(Enum):
    STARTING = auto()
    IDLE = auto()
    BUSY = auto()


@dataclass(eq=False)
class _Worker:
    """A process, the parent's end of its pipe, and the number and the latest end of its task."""

    process: Any
    pipe: Connection
    state: _State = _State.STARTING
    number: int = -1
    until: float = math.inf


def run(
    tasks: Sequence[Any],
    jobs: int,
    start: Start,
    limit: float = math.inf,
    patience: float = PATIENCE,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Answer | None]]:
    """The number of each task with its answer, as they are finished.

    The answer is None for a task whose process died or took longer than `patience`. No task is
    begun before all processes have started. After `limit` seconds, or once `stop` returns True, no
    task is begun, and those that are not finished GRACE seconds later are dropped.
    """
    todo = deque(enumerate(tasks))
    end = time.monotonic() + limit
    workers = [_hire(start) for _ in range(min(jobs, len(tasks)))]
    try:
        for worker in workers:  # starting takes all cores, and nothing is timed meanwhile
            while not worker.pipe.poll(TICK):
                if stop() or time.monotonic() >= end:
                    return
            _started(worker)
        while workers:
            if stop():
                end = min(end, time.monotonic())
            if time.monotonic() >= end:
                todo.clear()
            if time.monotonic() >= end + GRACE:
                return
            for worker in [w for w in workers if w.state is _State.IDLE]:
                if todo:
                    _give(worker, *todo.popleft(), patience)
                else:
                    _end(worker, workers)
            for worker in _heard(workers):
                if worker.state is _State.STARTING:
                    _started(worker)
                    continue
                answer = _answer(worker)
                if answer is None and stop():  # the signal that ends this process has reached it
                    pass
                elif answer is not None and answer.again is not None:
                    todo.appendleft((worker.number, answer.again))
                else:
                    yield worker.number, answer
                if answer is None or answer.broken:
                    _end(worker, workers)
                    workers += [_hire(start)] if todo else []
                else:
                    worker.state = _State.IDLE
    finally:
        for worker in [*workers]:
            _end(worker, workers)


# ---- the parent --------------------------------------------------------------------------------
def _hire(start: Start) -> _Worker:
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, start))
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _started(worker: _Worker) -> None:
    try:
        worker.pipe.recv()
    except EOFError:
        worker.process.join()
        code = worker.process.exitcode
        raise Error("a process of the sweep ended while it started", got=f"exit {code}") from None
    worker.state = _State.IDLE


def _give(worker: _Worker, number: int, task: Any, patience: float) -> None:
    worker.state, worker.number = _State.BUSY, number
    worker.until = time.monotonic() + patience
    worker.pipe.send(task)


def _heard(workers: Sequence[_Worker]) -> list[_Worker]:
    """The processes that have sent something, have died, or take too long; waits for a TICK."""
    if not workers:
        return []
    busy = [w.until for w in workers if w.state is _State.BUSY]
    rest = max(0.0, min([*busy, math.inf]) - time.monotonic())
    ready = wait([w.pipe for w in workers], min(rest, TICK))
    now = time.monotonic()
    return [w for w in workers if w.pipe in ready or (w.state is _State.BUSY and now >= w.until)]


def _answer(worker: _Worker) -> Answer | None:
    try:
        return worker.pipe.recv() if worker.pipe.poll() else None
    except (EOFError, ConnectionResetError):
        return None


def _end(worker: _Worker, workers: list[_Worker]) -> None:
    workers.remove(worker)
    worker.pipe.close()  # a process that waits for a task ends by this
    if worker.state is not _State.IDLE:  # it hangs, or may hang when it ends after a CUDA error
        worker.process.kill()
    worker.process.join()
    for other in workers:  # it may have stopped them
        os.kill(other.process.pid, signal.SIGCONT)


# ---- a process ---------------------------------------------------------------------------------
def _serve(pipe: Connection, start: Start) -> None:
    work = start()
    pipe.send(READY)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        answer = work(task)
        pipe.send(answer)
        if answer.broken:
            return
