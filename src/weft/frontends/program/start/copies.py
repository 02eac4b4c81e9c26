"""Waits for the processes of a program: one, or several copies with a rank each."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)
_GRACE = 5.0
"""Seconds in which the other copies may end after one has failed."""
_POLL = 0.02


def variables(rank: int, copies: int) -> dict[str, str]:
    """The variables from which a copy of several learns its rank, as launchers of jobs set them."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(copies)}


def ended(command: Sequence[str], files: Sequence[int], stdout: int | None, copies: int) -> int:
    """Start the copies and wait for them; the status of the first that fails, or 0.

    Ctrl-C reaches them from the terminal; other signals are forwarded. SIGINT is blocked while the
    processes start, which inherit that: `serve` lets it through when Python's own handler, which
    prints a traceback, is removed.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    before: dict[int, Any] = {}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(copies):
            own: Mapping[str, str] = variables(rank, copies) if copies > 1 else {}
            environment = {**os.environ, **own}
            processes.append(
                subprocess.Popen(command, pass_fds=files, stdout=stdout, env=environment)
            )

        def forward(number: int, frame: FrameType | None) -> None:
            for process in processes:
                process.send_signal(number)

        if (
            threading.current_thread() is threading.main_thread()
        ):  # only the main thread may set handlers
            before |= {number: signal.signal(number, forward) for number in _FORWARDED}
            before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        return processes[0].wait() if copies == 1 else _all_ended(processes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _all_ended(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all; after a failure the others have a time to end, since they may wait for it."""
    first, until = 0, float("inf")
    while running := [process for process in processes if process.poll() is None]:
        failed = [process.returncode for process in processes if process.returncode]
        if failed and not first:
            first, until = failed[0], time.monotonic() + _GRACE
        if time.monotonic() > until:
            for process in running:
                process.kill()
        time.sleep(_POLL)
    return first or next((p.returncode for p in processes if p.returncode), 0)
