"""A lock: one process at a time uses the GPU, and all cores while it times a call.

The lock is one on a file: the operating system releases it when a process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch


class GpuLock:
    """A lock of the GPU for the processes of a sweep: `with lock:` waits for it.

    The processes share a folder; without one there is no other process. Code that only compiles
    runs inside `paused()`, and another process has the GPU meanwhile.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: IO[str] | None = None
        self._locked = False
        if folder is not None:
            # Locked, and never closed, as long as this process lives: another one may have its
            # number later.
            file = os.open(folder / f"{os.getpid()}.process", os.O_RDWR | os.O_CREAT)
            fcntl.flock(file, fcntl.LOCK_EX)

    def __enter__(self) -> GpuLock:
        self._take()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        self._give(settle=kind is None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Release the lock inside, if this process has it."""
        locked = self._locked
        if locked:
            self._give()
        try:
            yield
        finally:
            if locked:
                self._take()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Stop the other processes inside; for the process that has the lock.

        What they compile takes cores, and the host's part of a call would wait for one.
        """
        others = self._others()
        try:
            _send(others, signal.SIGSTOP)
            yield
        finally:
            _send(others, signal.SIGCONT)

    def _others(self) -> list[int]:
        files = [*self._folder.glob("*.process")] if self._folder is not None else []
        return [
            int(file.stem) for file in files if int(file.stem) != os.getpid() and _is_locked(file)
        ]

    def _take(self) -> None:
        if self._folder is not None:
            self._file = (self._folder / "lock").open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._locked = True

    def _give(self, settle: bool = True) -> None:
        """Release the lock; after an error, the GPU may not be able to settle."""
        try:
            # Kernels still running would delay those that the next process times.
            if settle and torch.cuda.is_initialized():
                torch.cuda.synchronize()
        finally:
            self._locked = False
            if self._file is not None:
                self._file.close()  # and with it the lock


def _is_locked(path: Path) -> bool:
    """True if a process has a file locked."""
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:  # it has just ended
            continue
