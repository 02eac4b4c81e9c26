"""A worker as the judge sees it: started, asked, ended."""

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
from weft.measure.check.workers import wire
from weft.measure.check.workers.watchdog import Watchdog, members
from weft.measure.dtypes import Array

_LOOK = 0.5  # seconds between two looks at a worker that has not answered
_LINES, _COLUMNS = 100, 300  # of a worker's output that are kept
_HIDDEN = ("WEFT_SEED",)
"""Variables that a worker is not given: with the seed it could foresee the data."""


class NoAnswer(Exception):
    """A worker that ended, hangs, or answers what it was not asked."""


class Raised(Exception):
    """What the user's code raised in a worker; `parts` are those of a weft.Error."""

    def __init__(self, kind: str, text: str, where: str, parts: Mapping[str, str] | None) -> None:
        super().__init__(text)
        self.kind, self.text, self.where, self.parts = kind, text, where, parts


class ForkServer:
    """The process that new workers are forked from."""

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
        """The process id of a new worker."""
        return int(self._ask({}, [connection, output])["pid"])

    def ended(self, worker: int) -> int | None:
        """A worker's exit code, negative for a signal; None while it runs."""
        code: int | None = self._ask({"ended": worker})["code"]
        return code

    def close(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> dict[str, Any]:
        wire.send(self._connection, message, files)
        answer = wire.receive(self._connection, files=0)
        if answer is None:
            raise MissingDependency(
                "the process that starts workers has ended",
                got=f"exit code {self._process.wait()}",
                next="is there enough memory?",
            )
        return answer[0]


class Worker:
    """A process that answers one question at a time."""

    def __init__(self, forkserver: ForkServer, limit: float) -> None:
        self._nursery, self._limit = forkserver, limit
        self._connection, child_end = socket.socketpair()
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

    def ask(
        self, do: str, arrays: Mapping[str, Array] | None = None, **more: Any
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """The answer to a question and its arrays; NoAnswer, or Raised by the user's code."""
        token = secrets.token_hex(16)
        file = wire.memory_file()
        try:
            rows = wire.put(file, arrays or {})
            start = os.fstat(file).st_size
            self._nothing_more()
            wire.send(self._connection, {"id": token, "do": do, "arrays": rows, **more}, [file])
            answer = self._answer()
            if answer.get("id") != token:
                raise NoAnswer("it answers another question than it was asked")
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

    def close(self) -> list[str]:
        """Ends the worker and all processes of its session at once; what they printed."""
        if self._closed:
            return self._said
        self._closed = True
        self._connection.close()
        for process in list(members(self._pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(process.name), signal.SIGKILL)
        self._exit_code()
        self._reader.join(1)  # a process that left the session may hold the pipe open
        return self._said

    def _answer(self) -> dict[str, Any]:
        watchdog, received = Watchdog(self._pid, self._limit), b""
        while True:
            if not select.select([self._connection], [], [], _LOOK)[0]:
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
        """Nothing may arrive while nothing is asked."""
        if select.select([self._connection], [], [], 0)[0]:
            if self._connection.recv(1, socket.MSG_PEEK):
                raise NoAnswer("it answers before it is asked")
            raise NoAnswer(self._end())

    def _end(self) -> str:
        """How the worker ended that has closed its connection."""
        code = self._exit_code()
        if code is None:
            return "it closed its connection, or became another program"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def _exit_code(self) -> int | None:
        """How the process ended that is about to; None when it is still there after a second."""
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
    """This process's own, with the same modules in reach, less what a solution must not know."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    modules = os.pathsep.join(path for path in sys.path if path)
    return {**kept, "PYTHONPATH": modules, "PYTHONUNBUFFERED": "1"}


def plain(line: str) -> str:
    """Without control characters, which could overwrite what the judge has printed."""
    shown = "".join(c if c.isprintable() or c == "\t" else "�" for c in line)
    return shown if len(shown) <= _COLUMNS else shown[:_COLUMNS] + "…"


def _indented(text: str) -> str:
    """Lines of a user's error under its first, where none can be taken for a verdict."""
    return "\n    ".join(map(plain, text.splitlines()))


def _raised(error: object) -> Exception:
    match error:
        case {"kind": str(kind), "text": str(text), "where": str(where), "parts": dict(parts)}:
            words = {k: _indented(str(v)) for k, v in parts.items() if k in _PARTS}
            error_parts = words if "what" in words else None
            return Raised(plain(kind), _indented(text), plain(where), error_parts)
    return NoAnswer("its answer cannot be read: an error without its parts")


_PARTS = ("what", "where", "got", "allowed", "next")
