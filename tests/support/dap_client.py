"""A client of the Debug Adapter Protocol: debugpy's streams, every message checked by its schema.

debugpy ships the protocol's published JSON schema.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import debugpy
import jsonschema
from debugpy.common.messaging import JsonIOStream, NoMoreMessages

TIMEOUT = 60
Message = dict[str, Any]


@functools.cache
def schema() -> Any:
    """The published schema, from debugpy's package."""
    assert debugpy.__file__ is not None and importlib.util.find_spec("debugpy") is not None
    (found,) = Path(debugpy.__file__).parent.rglob("debugProtocol.json")
    return json.loads(found.read_text(encoding="utf-8"))


@functools.cache
def _validator(definition: str) -> Any:
    whole = schema()
    assert definition in whole["definitions"], f"the protocol has no {definition}"
    return jsonschema.Draft4Validator({**whole, "$ref": f"#/definitions/{definition}"})


def check(message: Message) -> None:
    """Raise for a message that is not as the schema says."""
    kind, failed = message["type"], message.get("success") is False
    name = message.get("event") or message.get("command") or ""
    name = "Error" if failed else name[0].upper() + name[1:]
    _validator(name + kind.capitalize()).validate(message)


class Client:
    """Starts `weft debug --dap` and talks with it."""

    def __init__(self, stream: JsonIOStream) -> None:
        self._stream, self._seq = stream, 0
        self.seen: list[Message] = []
        self.events: list[Message] = []
        self._responses: dict[int, Message] = {}
        self._changed = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                message = json.loads(json.dumps(self._stream.read_json()))
            except NoMoreMessages:
                break
            with self._changed:
                self.seen.append(message)
                if message["type"] == "event":
                    self.events.append(message)
                else:
                    self._responses[message["request_seq"]] = message
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request and return its number."""
        self._seq += 1
        message: Message = {"seq": self._seq, "type": "request", "command": command}
        message["arguments"] = arguments
        check(message)
        self._stream.write_json(message)
        return self._seq

    def response(self, number: int) -> Message:
        """The whole response to a request."""
        with self._changed:
            found = self._changed.wait_for(lambda: number in self._responses or self._over, TIMEOUT)
            assert found and number in self._responses, "no response"
            return self._responses[number]

    def ask(self, command: str, **arguments: Any) -> Any:
        """The body of the response to a request, which succeeds."""
        answer = self.response(self.send(command, **arguments))
        assert answer["success"], answer
        return answer.get("body")

    def refused(self, command: str, **arguments: Any) -> str:
        """The message of a response to a request that fails."""
        answer = self.response(self.send(command, **arguments))
        assert not answer["success"], answer
        return str(answer["message"])

    def event(self, name: str) -> Any:
        """The body of the next event of a kind, which is taken out of the list."""

        def find() -> Message | None:
            return next((e for e in self.events if e["event"] == name), None)

        with self._changed:
            assert self._changed.wait_for(lambda: find() or self._over, TIMEOUT), name
            found = find()
            assert found is not None, f"no event {name}"
            self.events.remove(found)
            return found.get("body")

    def output(self, category: str) -> str:
        """All that the program has printed so far."""
        bodies = [m["body"] for m in self.seen if m.get("event") == "output"]
        return "".join(b["output"] for b in bodies if b["category"] == category)

    def close(self) -> None:
        """Close the connection, once the other end is gone."""
        self._reader.join(TIMEOUT)
        self._stream.close()

    def check_all(self) -> None:
        """Check every message that was received, and their numbers."""
        for message in self.seen:
            check(message)
        assert [m["seq"] for m in self.seen] == list(range(1, len(self.seen) + 1))


def start(*words: str) -> tuple[Client, subprocess.Popen[bytes]]:
    """A client of `weft debug --dap` on standard input and output."""
    command = [sys.executable, "-m", "weft", "debug", "--dap", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return Client(JsonIOStream.from_process(process)), process


def configure(
    client: Client,
    breakpoints: dict[str, Sequence[Message]],
    *,
    functions: Sequence[Message] = (),
    filters: Sequence[str] = ("fault",),
    **launch: Any,
) -> list[Message]:
    """The beginning of a session, as editors do it; return the breakpoints of the answers."""
    client.ask("initialize", adapterID="weft", linesStartAt1=True, columnsStartAt1=True)
    client.ask("launch", **launch)
    client.event("initialized")
    shown = []
    for path, wanted in breakpoints.items():
        answer = client.ask("setBreakpoints", source={"path": path}, breakpoints=list(wanted))
        shown += answer["breakpoints"]
    if functions:
        answer = client.ask("setFunctionBreakpoints", breakpoints=list(functions))
        shown += answer["breakpoints"]
    client.ask("setExceptionBreakpoints", filters=list(filters))
    client.ask("configurationDone")
    return shown
