"""Starts worker processes, sends them requests and ends them."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import MissingDependency
from weft.measure.check.workers import sleepers, wire
from weft.measure.check.workers.watchdog import Watchdog, members
from weft.measure.dtypes import Array

_POLL_S = 0.5  # interval of the watchdog
_LINES, _COLUMNS = 100, 300  # the most of a worker's output that is kept
_HIDDEN = ("WEFT_SEED",)
"""Environment variables hidden from workers: the seed would let a solution predict the data."""


class NoAnswer(Exception):
    """A worker that ended, hangs, or sent an invalid answer."""


class Raised(Exception):
    """An exception of user code in a worker; `parts` are those of a weft.Error."""

    def __init__(self, kind: str, text: str, where: str, parts: Mapping[str, str] | None) -> None:
        super().__init__(text)
        self.kind, self.text, self.where, self.parts = kind, text, where, parts


class ForkServer:
    """The process that forks new workers."""

    def __init__(self) -> None:
        self._connection, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "weft.measure.check.workers.forkserver",
                    str(child_end.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                env=_environment(),
                pass_fds=[child_end.fileno()],
                start_new_session=True,
            )

    def new(self, connection: int, output: int) -> int:
        """Fork a worker and return its process id."""
        return int(self._request({}, [connection, output])["pid"])

    def ended(self, worker: int) -> int | None:
        """A worker's exit code, negative for a signal; None while it runs."""
        code: int | None = self._request({"ended": worker})["code"]
        return code

    def close(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _request(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> dict[str, Any]:
        wire.send(self._connection, message, files)
        answer = wire.receive(self._connection, files=0)
        if answer is None:
            raise MissingDependency(
                "the process that starts workers has ended",
                got=f"exit code {self._process.wait()}",
                next="is there enough memory?",
            )
        return answer[0]


class CheckWorker:
    """A process that answers one request at a time."""

    def __init__(self, forkserver: ForkServer, limit: float) -> None:
        self._nursery, self._limit = forkserver, limit
        self._connection, child_end = socket.socketpair()
        # Output has its own pipe: text that a solution prints must not reach the protocol.
        reads, writes = os.pipe()
        try:
            self._pid = forkserver.new(child_end.fileno(), writes)
        finally:
            child_end.close()
            os.close(writes)
        self._said: list[str] = []
        self._closed = False
        self._code: int | None = None
        self._reader = threading.Thread(target=self._listen, args=[reads], daemon=True)
        self._reader.start()

    def request(
        self, do: str, arrays: Mapping[str, Array] | None = None, **more: Any
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Send a request; return the answer and its arrays. Raise NoAnswer, or Raised."""
        # A random token per request: a solution cannot prepare a forged answer.
        token = secrets.token_hex(16)
        file = wire.memory_file()
        try:
            rows = wire.put(file, arrays or {})
            start = os.fstat(file).st_size
            self._nothing_more()
            wire.send(self._connection, {"id": token, "do": do, "arrays": rows, **more}, [file])
            answer = self._answer()
            if answer.get("id") != token:
                raise NoAnswer("it answered another request")
            # Sealed before reading: the worker cannot change the answer after validation.
            wire.seal(file)
            answer_arrays = wire.get(file, answer.get("arrays"), start)
            self._nothing_more()
        except wire.Malformed as error:
            raise NoAnswer(f"its answer cannot be read: {error}") from None
        except OSError:
            raise NoAnswer(self._end()) from None
        finally:
            os.close(file)
        if "error" in answer:
            raise _raised(answer["error"])
        return answer, answer_arrays

    def rest(self) -> bool:
        """Wait for threads that sleep; False if one sleeps for longer than the time limit."""
        return sleepers.wait(self._pid, self._limit)

    def close(self) -> list[str]:
        """Kill all processes of the worker's session; return what they printed."""
        if self._closed:
            return self._said
        self._closed = True
        self._connection.close()
        for process in list(members(self._pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(process.name), signal.SIGKILL)
        self._exit_code()
        self._reader.join(1)  # a process that left the session may keep the pipe open
        return self._said

    def _answer(self) -> dict[str, Any]:
        # Most answers come at once; a watchdog reads the status of every process of the machine.
        watchdog: Watchdog | None = None
        received = b""
        while True:
            if not select.select([self._connection], [], [], _POLL_S)[0]:
                watchdog = watchdog or Watchdog(self._pid, self._limit)
                if trouble := watchdog.trouble():
                    raise NoAnswer(trouble)
                continue
            more = self._connection.recv(1 << 16)
            if not more:
                raise NoAnswer(self._end())
            received += more
            whole = wire.message_in(received)
            if whole is None:
                continue
            if whole[1]:
                raise NoAnswer("it answers twice")
            return whole[0]

    def _nothing_more(self) -> None:
        """Raise if the worker sent data without a request."""
        if select.select([self._connection], [], [], 0)[0]:
            if self._connection.recv(1, socket.MSG_PEEK):
                raise NoAnswer("it answers before it is asked")
            raise NoAnswer(self._end())

    def _end(self) -> str:
        """Describe how a worker ended after it closed its connection."""
        code = self._exit_code()
        if code is None:
            return "it closed its connection, or became another program"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def _exit_code(self) -> int | None:
        """The exit code of a process that is ending; None if it still runs after a second."""
        for _ in range(100):
            if self._code is None:
                self._code = self._nursery.ended(self._pid)
            if self._code is not None:
                return self._code
            time.sleep(0.01)
        return None

    def _listen(self, pipe: int) -> None:
        with open(pipe, encoding="utf-8", errors="replace", closefd=True) as lines:
            for number, line in enumerate(iter(lambda: lines.readline(1 << 16), "")):
                if number < _LINES:
                    self._said.append(plain(line.rstrip("\n")))
                elif number == _LINES:
                    self._said.append("… and more")


def _environment() -> dict[str, str]:
    """The environment of workers: this process's modules, without the hidden variables."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    modules = os.pathsep.join(path for path in sys.path if path)
    return {**kept, "PYTHONPATH": modules, "PYTHONUNBUFFERED": "1"}


def plain(line: str, columns: int = _COLUMNS) -> str:
    """Remove control characters, which could overwrite output of the judge."""
    shown = "".join(c if c.isprintable() or c == "\t" else "�" for c in line)
    return shown if len(shown) <= columns else shown[:columns] + "…"


def _indented(text: str) -> str:
    """Indent the lines of a user's error, so that none can imitate a verdict."""
    return "\n    ".join(map(plain, text.splitlines()))


def _raised(error: object) -> Exception:
    match error:
        case {"kind": str(kind), "text": str(text), "where": str(where), "parts": dict(parts)}:
            words = {k: _indented(str(v)) for k, v in parts.items() if k in _PARTS}
            error_parts = words if "what" in words else None
            return Raised(plain(kind), _indented(text), plain(where), error_parts)
    return NoAnswer("its answer cannot be read: an error without its parts")


_PARTS = ("what", "where", "got", "allowed", "next")
