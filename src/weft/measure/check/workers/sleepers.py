"""Finds threads of a solution that sleep for a given time, and waits until they have woken up.

Such a thread can change results after the check. Threads of a pool wait without a time and are no
sleepers.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from pathlib import Path

from weft.measure.check.workers.watchdog import listed, members

_POLL_S = 0.05
_ACT_S = 0.2
"""Time for a thread that has woken up to do what it slept for."""

_TIMEOUT_AT: Mapping[str, Mapping[int, int | None]] = {
    # clock_nanosleep, nanosleep, futex, select, pselect6, poll, ppoll, epoll_wait, epoll_pwait
    "x86_64": {230: None, 35: None, 202: 3, 23: 4, 270: 4, 7: 2, 271: 2, 232: 3, 281: 3},
    "aarch64": {115: None, 101: None, 98: 3, 72: 4, 73: 2, 22: 3},
}
"""Machine -> system call -> the argument with its time limit; None if it always has one."""
_NO_LIMIT = (0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""A null pointer, and -1 milliseconds."""


def wait(session: int, limit: float) -> bool:
    """Wait until every sleeper of a session has woken up; False if one sleeps beyond the limit."""
    asleep, end = _asleep(session), time.monotonic() + limit
    waited = bool(asleep)
    while asleep:
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
        now = _asleep(session)
        # The count of switches differs between one long sleep and several short ones.
        asleep = {thread: n for thread, n in asleep.items() if now.get(thread) == n}
    if waited:
        time.sleep(_ACT_S)
    return True


def _asleep(session: int) -> dict[str, str]:
    """/proc/PID/task/TID of every sleeper -> how often it has given up the processor."""
    threads = [t for process in members(session) for t in listed(process / "task")]
    return {str(t): _switches(t) for t in threads if _sleeps(t)}


def _sleeps(thread: Path) -> bool:
    calls = _TIMEOUT_AT.get(platform.machine(), {})
    number, *arguments = _read(thread / "syscall").split() or [""]
    if not number.isdecimal() or int(number) not in calls:  # "running", or it has ended
        return False
    at = calls[int(number)]
    return at is None or int(arguments[at], 16) not in _NO_LIMIT


def _switches(thread: Path) -> str:
    lines = _read(thread / "status").splitlines()
    return next((line for line in lines if line.startswith("voluntary_ctxt_switches")), "")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:  # the thread has ended, or the system does not show its calls
        return ""
