"""A pool of processes that outlives its members: a fault of the GPU ends one, and work goes on."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

Run = Callable[[str], list[dict[str, Any]]]


def spread(run: Run, tasks: Iterable[str], workers: int, until: float) -> Iterator[Any]:
    """(task, findings or the text of an error) as they come; no task is begun after `until`."""
    waiting, busy = iter(tasks), dict[Connection, tuple[BaseProcess, str]]()

    def begin(end: Connection | None = None, process: BaseProcess | None = None) -> None:
        task = next(waiting, None) if time.time() < until else None
        if task is None:
            if end is not None:
                end.close()
            return
        if end is None or process is None:
            end, there = mp.Pipe()
            process = mp.Process(target=_work, args=(run, there), daemon=True)
            process.start()
            there.close()
        busy[end] = (process, task)
        end.send(task)

    for _ in range(workers):
        begin()
    while busy:
        for end in wait(list(busy)):
            assert isinstance(end, Connection)
            process, task = busy.pop(end)
            try:
                answer = end.recv()
            except EOFError:
                yield task, "the process died"
                begin()
                continue
            yield task, answer
            if isinstance(answer, str):  # the GPU's context may be lost: a new process has another
                end.close()
                begin()
            else:
                begin(end, process)


def _work(run: Run, end: Connection) -> None:
    os.environ["WEFT_THREADS"] = "1"
    while True:
        try:
            task = end.recv()
        except EOFError:
            return
        try:
            end.send(run(task))
        except Exception:
            end.send(traceback.format_exc())
            os._exit(1)
