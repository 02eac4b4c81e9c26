"""The process between an editor and a program: starts the program, passes messages on.

The process of the program connects to a socket and answers the requests about its launches
(`server`). What it prints becomes output events.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO

from weft.debug.dap.messages import Channel, Message
from weft.errors import Error

Command = Callable[[str, str, Sequence[str]], Sequence[str]]
"""The command of the debugged process: from its socket, the file and the file's arguments."""

CAPABILITIES = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsFunctionBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsSteppingGranularity": True,
    "supportsDisassembleRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsTerminateRequest": True,
    "supportsDataBreakpoints": True,
    "exceptionBreakpointFilters": [
        {"filter": "fault", "label": "Faults", "default": True,
         "description": "Wrong addresses, failed assertions, traps, deadlocks"},
        {"filter": "nan", "label": "The first NaN", "default": False},
        {"filter": "barrier", "label": "Barriers", "default": False,
         "description": "Where a warp arrives at a barrier"},
    ],
}  # fmt: skip


def serve(
    command: Command,
    file: str | None,
    args: Sequence[str],
    port: int | None = None,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
) -> int:
    """Serve one editor, on standard input and output or on a port, and return the exit code."""
    if port is None:
        # What else writes to standard output would disturb the protocol.
        ours = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        return Adapter(Channel(sys.stdin.buffer, ours), command, file, args).run()
    with _listening(port) as server:
        say(f"weft debug: waits for an editor on port {server.getsockname()[1]}")
        connection, _ = server.accept()
    with connection, connection.makefile("rb") as reader, connection.makefile("wb") as writer:
        return Adapter(Channel(reader, writer), command, file, args).run()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a port"
        raise Error(
            "the debugger cannot listen on the port",
            got=f"{port}: {why}",
            allowed="a free port of this machine, or 0 for any",
        ) from None


class Adapter:
    """Serves one editor. Requests about launches go to the program's process, once it connects."""

    def __init__(
        self, client: Channel, command: Command, file: str | None, args: Sequence[str]
    ) -> None:
        self.client, self._command, self._file, self._args = client, command, file, args
        self._folder = tempfile.TemporaryDirectory(prefix="weft-dap-")
        self._process: subprocess.Popen[bytes] | None = None
        self._program: Channel | None = None
        self._waiter: threading.Thread | None = None
        self._code = 0

    def run(self) -> int:
        """Answer requests until the editor disconnects; return the program's exit code."""
        try:
            while (message := self.client.read()) is not None:
                if not self._handle(message):
                    break
        finally:
            self._kill()
            self._folder.cleanup()
        return self._code

    def _handle(self, message: Message) -> bool:
        """Answer a request, or pass it on; False at the end of the session."""
        if message.get("type") != "request" or "command" not in message or "seq" not in message:
            return True  # an answer: this end has asked nothing
        match message["command"]:
            case "initialize":
                self.client.respond(message, CAPABILITIES)
            case "launch":
                self._launch(message)
            case "terminate":
                self.client.respond(message)
                self._kill()
            case "disconnect":
                self._kill()
                self.client.respond(message)
                return False
            case _ if self._program is not None:
                self._program.forward(message)
            case _:
                self.client.refuse(message, "the program does not run")
        return True

    # ---- the program ------------------------------------------------------------------------
    def _launch(self, request: Message) -> None:
        given = request.get("arguments", {})
        file = given.get("program", self._file)
        if self._process is not None or file is None:
            started = self._process is not None
            self.client.refuse(
                request,
                "the program has been started already"
                if started
                else "no program: name it in the command, or as `program` of the launch",
            )
            return
        path = os.path.join(self._folder.name, "socket")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(1)
        args = [str(x) for x in given.get("args", self._args)]
        try:
            self._process = subprocess.Popen(
                self._command(path, file, args),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=given.get("cwd"),
                env={**os.environ, "PYTHONUNBUFFERED": "1", **given.get("env", {})},
                start_new_session=True,  # a program may have processes of its own
            )
        except OSError as error:  # e.g. of the folder
            server.close()
            os.unlink(path)
            self.client.refuse(request, f"the program cannot be started: {error}")
            return
        assert self._process.stdout is not None and self._process.stderr is not None
        streams = (("stdout", self._process.stdout), ("stderr", self._process.stderr))
        readers = [threading.Thread(target=self._print, args=pair, daemon=True) for pair in streams]
        for reader in readers:
            reader.start()
        threading.Thread(
            target=self._relay, args=(server, {**given, "program": file}), daemon=True
        ).start()
        self._waiter = threading.Thread(target=self._wait, args=(readers, server), daemon=True)
        self._waiter.start()
        self.client.respond(request)

    def _print(self, category: str, stream: BinaryIO) -> None:
        reader = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
        while text := reader.readline():
            self.client.event("output", category=category, output=text)

    def _relay(self, server: socket.socket, given: Message) -> None:
        """Pass on what the process of the program answers."""
        try:
            connection, _ = server.accept()
        except OSError:  # the program has ended before
            return
        with connection, connection.makefile("rb") as reader, connection.makefile("wb") as writer:
            program = Channel(reader, writer)
            program.send({"type": "request", "command": "launch", "arguments": given})
            self._program = program
            while (message := program.read()) is not None:
                self.client.send(message)

    def _wait(self, readers: Sequence[threading.Thread], server: socket.socket) -> None:
        assert self._process is not None
        self._code = code = self._process.wait()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # it wakes the thread that waits for a connection
        server.close()
        for reader in readers:
            reader.join(timeout=5)
        self._program = None
        self.client.event("exited", exitCode=code)
        self.client.event("terminated")

    def _kill(self) -> None:
        """End the program with its processes, and wait for its last events."""
        if self._process is None or self._waiter is None or not self._waiter.is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._waiter.join(timeout=10)
