"""The debugger's side of the server: a worker process of its own, which ends when it is forgotten.

Other actions go on in the first worker while a launch is stopped here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from weft.lab.process import LabWorker, Stopped
from weft.lab.worker import DEBUG

IDLE_S = 900.0
"""Seconds without a command after which a session is taken for forgotten."""


class DebugApi:
    """One session of the debugger at a time. Threads may call it; commands queue."""

    def __init__(self, like: LabWorker, *, idle: float = IDLE_S) -> None:
        """`like` is the worker whose limits hold; `idle` ends a session, in seconds."""
        self._like, self._idle = like, idle
        self._worker: LabWorker | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Return whether a session is under way."""
        return self._timer is not None

    def command(self, command: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a command; raises Stopped where the worker has ended."""
        with self._lock:
            self._rest()
            if self._worker is None:
                self._worker = self._like.another()
            worker = self._worker
        try:
            answer = worker.ask(DEBUG, {**given, "command": command})
        except Stopped:
            self._rest()
            raise
        if command == "end" and answer.get("state") == "running":
            worker.stop("the launch was ended in the debugger")
        if not answer["ok"] or answer.get("state") == "ended" or command == "end":
            return answer
        self._watch(worker)
        return answer

    def _watch(self, worker: LabWorker) -> None:
        """Ends the session unless another command comes in time."""
        why = f"the debugger had no command for {self._idle:.0f} s, so its launch was ended"
        with self._lock:
            self._rest()
            self._timer = threading.Timer(self._idle, self._forget, [worker, why])
            self._timer.daemon = True
            self._timer.start()

    def _forget(self, worker: LabWorker, why: str) -> None:
        worker.stop(why)
        with self._lock:
            self._timer = None

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop(self, why: str = "stopped") -> None:
        """Ends a running command, from another thread."""
        if self._worker is not None:
            self._worker.stop(why)

    def close(self) -> None:
        """Ends the worker for good."""
        with self._lock:
            self._rest()
        if self._worker is not None:
            self._worker.close()
