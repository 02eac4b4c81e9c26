"""Answers an editor in the process of the program: it runs launches from stop to stop."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

from weft.debug.dap.breakpoints import EditorBreakpoints
from weft.debug.dap.messages import Channel, Message
from weft.debug.dap.sources import Sources
from weft.debug.dap.stopped import Stopped
from weft.debug.debugger import Debugger
from weft.debug.session import DebugSession
from weft.debug.stops import Stop
from weft.errors import Error

_RUNNING = {"threads": [{"id": 1, "name": "the program runs"}]}
"""The threads while no launch is stopped: the protocol wants at least one."""


def connect(path: str, session: DebugSession) -> None:
    """Connect a session to the adapter; return when the editor has set its breakpoints."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    server = Server(Channel(connection.makefile("rb"), connection.makefile("wb")), session)
    session.talk, session.started = server.talk, server.started
    threading.Thread(target=server.listen, name="weft dap", daemon=True).start()
    server.configured.wait()


class Server:
    """One thread answers requests; the thread that has started a launch moves it."""

    def __init__(self, channel: Channel, session: DebugSession) -> None:
        self._channel = channel
        self._sources = Sources()
        self._breakpoints = EditorBreakpoints(channel, session, self._sources)
        self._moves: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._stopped: Stopped | None = None
        self._pause = False
        self.configured = threading.Event()
        self._answers: dict[str, Callable[[Message], Message | None]] = {
            "launch": self._launch,
            "setBreakpoints": lambda x: {"breakpoints": self._breakpoints.lines(x)},
            "setFunctionBreakpoints": lambda x: {"breakpoints": self._breakpoints.kernels(x)},
            "setExceptionBreakpoints": self._breakpoints.events,
            "configurationDone": lambda x: self.configured.set(),
            "source": lambda x: {"content": self._sources.text(x["sourceReference"])},
            "pause": self._interrupt,
        }
        self._steps: dict[str, Callable[[Debugger], Callable[[], Any]]] = {
            "next": lambda d: d.next,
            "stepIn": lambda d: d.step,
            "stepOut": lambda d: d.finish if d.source.depth(d.here.ins.index) else d.cont,
        }

    # ---- requests ---------------------------------------------------------------------------
    def listen(self) -> None:
        """Answer requests until the adapter is gone, and the program with it."""
        while (request := self._channel.read()) is not None:
            try:
                self._answer(request)
            except Error as error:
                self._channel.refuse(request, str(error))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                self._channel.refuse(request, f"a part of the request is missing or wrong: {error}")
        os._exit(1)

    def _answer(self, request: Message) -> None:
        command, given = request["command"], request.get("arguments") or {}
        stopped = self._stopped
        if command in self._answers:
            body = self._answers[command](given)
            if command != "launch":
                self._channel.respond(request, body)
        elif stopped is not None and command == "evaluate" and _is_back(given):
            self._stopped = None
            self._channel.respond(request, {"result": "", "variablesReference": 0})
            text = given["expression"].strip().removeprefix("back ")
            self._moves.put(lambda: stopped.debugger.back(text))
        elif stopped is not None and command in stopped.answers:
            self._channel.respond(request, stopped.answers[command](given))
        elif stopped is not None and (command == "continue" or command in self._steps):
            self._go(request, stopped)
        elif command == "threads":
            self._channel.respond(request, _RUNNING)
        else:
            known = stopped is None
            self._channel.refuse(
                request, f"{command} needs a stopped launch" if known else f"no request {command}"
            )

    def _launch(self, given: Message) -> None:
        if given.get("stopOnEntry"):
            self._breakpoints.entry_stop()
        self._sources.files.add(os.path.abspath(given["program"]))
        self._channel.event("initialized")

    def _interrupt(self, given: Message) -> None:
        self._pause = True
        live = self._breakpoints.live
        if live is not None and live.launch.running:
            live.interrupt()

    def _go(self, request: Message, stopped: Stopped) -> None:
        """Begin to move the launch: the answer comes first, the next stop is an event."""
        command, given, d = request["command"], request.get("arguments") or {}, stopped.debugger
        body: Message | None = None
        if command == "continue":
            move: Callable[[], Any] = d.cont
            body = {"allThreadsContinued": True}
        else:
            stopped.select(given["threadId"])
            d.alive()
            d.frames()  # a thread that has not started cannot step
            single = given.get("granularity") == "instruction" and command != "stepOut"
            move = d.stepi if single else self._steps[command](d)
        self._stopped = None
        self._channel.respond(request, body)
        self._moves.put(move)

    # ---- launches ---------------------------------------------------------------------------
    def started(self, debugger: Debugger) -> None:
        """A launch begins; a pause that was asked for before stops it."""
        self._breakpoints.started(debugger)
        if self._pause:
            debugger.interrupt()

    def talk(self, debugger: Debugger) -> None:
        """Move a launch as the editor asks, until it has ended."""
        while debugger.stop is not None:
            self._pause = False
            self._stopped = stopped = Stopped(debugger, self._sources)
            self._announce(debugger.stop, stopped.thread_id)
            try:
                self._moves.get()()
            except Error as error:  # it is where it was
                self._channel.event("output", category="console", output=f"{error}\n")

    def _announce(self, stop: Stop, thread: int) -> None:
        hit = self._breakpoints.numbers(stop.breakpoint)
        reason = _reason(stop)
        self._channel.event(
            "stopped",
            reason=reason,
            description=stop.reason,
            **({"text": stop.reason} if reason == "exception" else {}),
            threadId=thread,
            allThreadsStopped=True,
            **({"hitBreakpointIds": hit} if hit else {}),
        )


def _is_back(given: Message) -> bool:
    """Return whether the console is to go back to the last write of a value."""
    return given.get("context") == "repl" and given["expression"].strip().startswith("back ")


def _reason(stop: Stop) -> str:
    """The word of the protocol for a stop."""
    if stop.breakpoint is not None:
        named = stop.breakpoint.line is None
        return "function breakpoint" if named else "breakpoint"
    words = {"step": "step", "interrupted": "pause"}
    if stop.reason.startswith("a write of "):
        return "data breakpoint"
    return words.get(stop.reason, "exception")
