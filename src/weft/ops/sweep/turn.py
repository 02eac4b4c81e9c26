"""Lets one process at a time use the GPU, by a lock on a file.

The operating system releases the lock when a process ends, however it ends.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch


class Turn:
    """A process's turns on the GPU: `with turn:` waits for one; without a path there is no lock.

    Code that only compiles runs inside `paused()`, and another process takes its turn meanwhile.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._held = False

    def __enter__(self) -> Turn:
        self._take()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._give()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Gives the turn up inside, if it is held."""
        held = self._held
        if held:
            self._give()
        try:
            yield
        finally:
            if held:
                self._take()

    def _take(self) -> None:
        if self._path is not None:
            self._file = self._path.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._held = True

    def _give(self) -> None:
        try:
            # Kernels still running would delay those that the next process times.
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
        finally:
            self._held = False
            if self._file is not None:
                self._file.close()  # and with it the lock
