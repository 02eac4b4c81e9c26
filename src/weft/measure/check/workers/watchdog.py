"""Distinguishes a slow worker from one that hangs, whatever the load of the machine.

A worker hangs when it exceeds its limit of CPU time, or when for that long none of its threads was
runnable and none used CPU time. Wall-clock time alone would fail slow workers on a busy machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_STATE, _SESSION, _USER, _SYSTEM = 0, 3, 11, 12
"""Fields of /proc/PID/stat after the process name, which may contain spaces and parentheses."""


class Watchdog:
    """Watches all processes of a session during one request."""

    def __init__(self, session: int, limit: float) -> None:
        self._session, self._limit = session, limit
        self._first = self._seen = self._used()
        self._since = time.monotonic()

    def trouble(self) -> str:
        """The reason why the session will not answer, or an empty string."""
        used, now = self._used(), time.monotonic()
        # Runnable but starved by other processes counts as progress.
        if used != self._seen or self._can_run():
            self._seen, self._since = used, now
        if used - self._first > self._limit:
            return f"{used - self._first:.0f} s of processor time and no answer"
        if now - self._since > self._limit:
            return f"it waits for {now - self._since:.0f} s already and uses no processor"
        return ""

    def _used(self) -> float:
        stats = (_stat(process / "stat") for process in members(self._session))
        return sum(int(s[_USER]) + int(s[_SYSTEM]) for s in stats if s) / _TICKS

    def _can_run(self) -> bool:
        """True if a thread is running, runnable, or waiting for a disk."""
        for process in members(self._session):
            for thread in listed(process / "task"):
                stat = _stat(thread / "stat")
                if stat and stat[_STATE] in "RD":
                    return True
        return False


def members(session: int) -> Iterator[Path]:
    """/proc/PID of each process of a session."""
    for path in listed(Path("/proc")):
        if path.name.isdecimal():
            stat = _stat(path / "stat")
            if stat and int(stat[_SESSION]) == session:
                yield path


def listed(folder: Path) -> list[Path]:
    """The entries of a folder of /proc; none if its process has ended."""
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def _stat(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # the process has ended
        return []
