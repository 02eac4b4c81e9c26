"""Messages of the Debug Adapter Protocol: a Content-Length header and JSON, in both directions."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from typing import Any, BinaryIO

from weft.errors import Error

Message = dict[str, Any]
_HEADER = b"content-length:"


class Channel:
    """One end of a connection. Any thread may send; one thread reads."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def read(self) -> Message | None:
        """The next message; None at the end of the connection."""
        size: int | None = None
        while line := self._reader.readline():
            text = line.strip().lower()
            if not text and size is not None:
                data = self._reader.read(size)
                return _parsed(data) if len(data) == size else None
            if text.startswith(_HEADER) and text[len(_HEADER) :].strip().isdigit():
                size = int(text[len(_HEADER) :])
            elif text:
                raise Error(
                    "a message of the debug adapter protocol begins with its length",
                    got=line.decode(errors="replace").strip(),
                    allowed="Content-Length: N, an empty line, and N bytes of JSON",
                )
        return None

    def send(self, message: Message) -> None:
        """Send a message with the next number."""
        with self._lock:
            self._write({**message, "seq": next(self._numbers)})

    def forward(self, message: Message) -> None:
        """Send a message of another connection, with the number that it has."""
        with self._lock:
            self._write(message)

    def _write(self, message: Message) -> None:
        data = json.dumps(message).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the other end is gone
            self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
            self._writer.flush()

    def event(self, name: str, **body: Any) -> None:
        """Send an event."""
        self.send({"type": "event", "event": name, "body": body})

    def respond(self, request: Message, body: Message | None = None) -> None:
        """Answer a request."""
        self.send({**_head(request), "success": True, **({} if body is None else {"body": body})})

    def refuse(self, request: Message, message: str) -> None:
        """Answer that a request has failed."""
        error = {"id": 1, "format": message.replace("{", "(").replace("}", ")"), "showUser": True}
        self.send(
            {**_head(request), "success": False, "message": message, "body": {"error": error}}
        )


def _head(request: Message) -> Message:
    return {"type": "response", "request_seq": request["seq"], "command": request["command"]}


def _parsed(data: bytes) -> Message:
    try:
        message = json.loads(data)
    except ValueError as error:
        raise Error("a message is not JSON", got=str(error)) from None
    if not isinstance(message, dict):
        raise Error("a message is a JSON object", got=type(message).__name__)
    return message
