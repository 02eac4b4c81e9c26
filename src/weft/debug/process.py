"""The debugger of a whole process, which `weft debug` asks for by an environment variable."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.debug.breakpoints import Breakpoint
from weft.debug.commands import parse_breakpoint
from weft.debug.debugger import Debugger
from weft.debug.session import DebugSession, open_session
from weft.debug.stops import StopOn
from weft.debug.terminal import Script, talk
from weft.debug.value_trace import TraceRequest, trace_launches

VARIABLE = "WEFT_DEBUG"


@dataclass(frozen=True)
class DebugRequest:
    """The places at which the launches of a process stop.

    breakpoints  each as `[FILE:]LINE [if CONDITION]`
    kernel       the only kernel that stops; "" for all
    commands     executed at the stops, instead of a prompt; None for the prompt
    as_json      print the answers of the commands as JSON
    race         stop at the second access of a data race
    trace        a variable whose changes are printed, instead of stops
    dap          the socket of the adapter of an editor, which then decides where launches stop
    """

    breakpoints: Sequence[str] = ()
    kernel: str = ""
    commands: Sequence[str] | None = None
    as_json: bool = False
    barrier: bool = False
    nan: bool = False
    dap: str = ""
    race: bool = False
    trace: TraceRequest | None = None

    @classmethod
    def from_text(cls, text: str) -> DebugRequest:
        """The request of another process."""
        given = json.loads(text)
        traced = given.pop("trace")
        if traced is not None:
            for name in ("thread", "block"):
                traced[name] = tuple(traced[name])
            given["trace"] = TraceRequest(**traced)
        return cls(**given)

    def text(self) -> str:
        return json.dumps(asdict(self))


def install(asked: DebugRequest, leave: Callable[[int], Any] = sys.exit) -> DebugSession:
    """Hand all launches of this process to the debugger; `leave` ends the process on `quit`."""
    session = open_session()
    session.leave = leave
    session.stop_on = StopOn(barrier=asked.barrier, nan=asked.nan)
    session.every = True
    if asked.dap:
        from weft.debug.dap.server import connect  # the prompt does without

        connect(asked.dap, session)
        return session
    if asked.trace is not None:
        trace_launches(session, asked.trace)
        return session
    session.talk = talk if asked.commands is None else Script(asked.commands, as_json=asked.as_json)
    if asked.race:
        from weft.debug.races import stop_at_races  # the sanitizer's code

        stop_at_races(session)
        return session
    made_of = [parse_breakpoint(text, anywhere=True) for text in asked.breakpoints]
    if not made_of and not (asked.barrier or asked.nan):
        made_of = [Breakpoint(anywhere=True)]  # the first line
    for made in made_of:
        session.chosen.append((None, asked.kernel, made))
        made.remove_with(session.remove)
    return session


def report_unreached(session: DebugSession) -> None:
    """Say which breakpoints have stopped no launch, at the end of the process."""
    for text in session.unreached():
        print(f"weft debug: {text}", file=sys.__stderr__)


def install_from_environment() -> DebugSession:
    """Do what the variable says, in the process of a CUDA program."""

    def leave(status: int) -> None:
        ctypes.CDLL(None).fflush(None)
        os._exit(status)  # the caller is C++ code, through which no exception passes

    session = install(DebugRequest.from_text(os.environ.pop(VARIABLE)), leave)
    if session.talk is not None:
        session.talk = functools.partial(_on_own_output, session.talk)
    return session


def _on_own_output(talk: Callable[[Debugger], None], debugger: Debugger) -> None:
    """Talk while `sys.stdout`, which a program's process replaces, is that of Python."""
    ctypes.CDLL(None).fflush(None)  # what the program has printed comes first
    before, sys.stdout = sys.stdout, sys.__stdout__ or sys.stdout
    try:
        talk(debugger)
    finally:
        sys.stdout.flush()
        sys.stdout = before
