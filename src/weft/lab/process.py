"""The server's worker process: one job at a time, limits, and a new process after a failure."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.lab.worker import OUTPUT
from weft.measure.check.workers import wire

START_S = 60.0
"""Seconds that a worker may take to start."""
GRACE_S = 20.0
"""Seconds beyond the limit of a launch: compiling and measuring are not part of a launch."""
_POLL_S = 0.1
_TAIL = 2000


class Stopped(Exception):
    """The worker ended without an answer; a new one is started for the next job."""


class LabWorker:
    """Runs jobs in a process of its own. Threads may call it; jobs queue."""

    def __init__(self, *, limit: float, memory: int, include: Sequence[str] = ()) -> None:
        """`limit` is seconds for a launch, `memory` bytes for the process.

        Sources may include headers of the folders in `include`.
        """
        self.limit, self.memory, self._include = limit, memory, list(include)
        self.started = 0
        self._folder = tempfile.TemporaryDirectory(prefix="weft-lab-")
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._stopped: tuple[subprocess.Popen[bytes] | None, str] = (None, "")
        """The process that `stop` has ended, and why."""
        self._closed = False

    def ask(self, do: str, job: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a job; raises Stopped when the worker ended or was ended."""
        with self._lock:
            connection = self._ready()
            try:
                asked = {"do": do, "job": job, "limit": self.limit, "include": self._include}
                wire.send(connection, asked)
                return self._receive(connection, self.limit + GRACE_S)
            except (OSError, EOFError, ValueError):  # closed, cut off, or no JSON
                raise self._ended() from None

    def another(self) -> LabWorker:
        """A worker with the same limits, in a process of its own."""
        return LabWorker(limit=self.limit, memory=self.memory, include=self._include)

    def warm(self) -> None:
        """Start the process before the first job asks for it."""
        with self._lock, contextlib.suppress(Stopped):  # the first job says what is wrong
            self._ready()

    def stop(self, why: str = "stopped") -> None:
        """Ends the running job, from another thread."""
        self._stopped = self._process, why
        self._kill(wait=0)

    def close(self) -> None:
        """Ends the worker for good."""
        self._closed = True
        self.stop("the lab ends")
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._folder.cleanup()

    def _ready(self) -> socket.socket:
        if self._closed:
            raise Stopped("the lab has ended")
        process = self._process
        alive = process is not None and process.poll() is None and process is not self._stopped[0]
        if alive and self._connection is not None:
            return self._connection
        self._kill(wait=0)
        if self._connection is not None:
            self._connection.close()
        self._connection, child = socket.socketpair()
        with child:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "weft.lab.worker", str(child.fileno()),
                 str(self.memory)],
                stdin=subprocess.DEVNULL,
                cwd=self._new_folder(),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                pass_fds=[child.fileno()],
                start_new_session=True,
            )  # fmt: skip
        self.started += 1
        try:
            self._receive(self._connection, START_S)
        except (OSError, EOFError, ValueError):
            raise self._ended() from None
        return self._connection

    def _new_folder(self) -> Path:
        folder = Path(self._folder.name, f"worker-{self.started}")
        folder.mkdir()
        return folder

    def _receive(self, connection: socket.socket, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while not select.select([connection], [], [], _POLL_S)[0]:
            if time.monotonic() > deadline:
                self.stop(f"stopped after {seconds:.0f} s")
                raise self._ended()
        # Ctrl-C and Stop end the process, and so the connection: this cannot wait for long.
        answer = wire.receive(connection, files=0)
        if answer is None:
            raise self._ended()
        return answer[0]

    def _ended(self) -> Stopped:
        """Describes the end of the worker, and prepares a new one."""
        # It may be ending by itself: its own exit code says more than the signal's.
        code = self._kill(wait=1)
        process, why = self._stopped
        if process is self._process:
            return Stopped(why)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        text = ""
        with contextlib.suppress(OSError):
            path = Path(self._folder.name, f"worker-{self.started - 1}", OUTPUT)
            text = path.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        return Stopped(
            f"the worker process ended {how}; a new one has been started\n{text}".strip()
        )

    def _kill(self, *, wait: float) -> int:
        """Kill the process, after some seconds, and all that it started; return its exit code."""
        process = self._process
        if process is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
