"""Debugs a job in a worker: one thread runs its launches from stop to stop, the other one asks.

The launches are those of `weft debug`: a `DebugSession` hands them to its `Debugger`. Every look at
a stopped launch and every move of it happens in the thread that runs the job, one after the other.
"""

from __future__ import annotations

import os
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.debug.debugger import Debugger
from weft.debug.session import open_session
from weft.errors import ArgumentError, Error
from weft.lab import actions, marks, programs, results, setup
from weft.lab.debugger import stopped
from weft.lab.debugger.breaks import Breaks
from weft.lab.job import Job, read
from weft.tasks.debugging.debug import TRITON_NAMES

ANSWER_S = 1.0
"""Seconds after which a launch that does not stop is answered as running; the page asks again."""
END_S = 5.0
Answer = dict[str, Any]
Given = Mapping[str, Any]
MOVES: Mapping[str, Callable[[Debugger, Given], object]] = {
    "continue": lambda d, given: d.cont(),
    "step": lambda d, given: d.step(),
    "next": lambda d, given: d.next(),
    "stepi": lambda d, given: d.stepi(),
    "finish": lambda d, given: d.finish() if d.source.depth(d.here.ins.index) else d.cont(),
    "back": lambda d, given: d.back(stopped.expression(given)),
    "thread": lambda d, given: d.select(*stopped.indices(given)),
    "frame": lambda d, given: d.select_frame(stopped.number(given, "frame")),
}
"""Commands after which the page shows the launch anew."""
LOOKS: Mapping[str, Callable[[Debugger, Given], Answer]] = {
    "value": lambda d, given: stopped.value(d, stopped.expression(given)),
    "registers": lambda d, given: {"registers": stopped.registers(d)},
}


class DebugRun:
    """One job under the debugger, from its start to the end of its last launch."""

    def __init__(self, job: Job, breakpoints: Sequence[Given]) -> None:
        self.name = secrets.token_hex(4)
        self.over = False
        self._job = job
        self._state = "running"
        self._asked: queue.SimpleQueue[Callable[[Debugger], Answer | None]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        session = self._session = open_session()
        self._breaks = Breaks(session, job.file, breakpoints)
        session.every, session.talk, session.started = True, self._talk, self._breaks.started
        self._thread = threading.Thread(target=self._run, name="weft lab debugger", daemon=True)
        self._thread.start()

    # ---- in the thread of the job ----------------------------------------------------------------
    def _run(self) -> None:
        try:
            answer = actions.guarded(self._job, self._launches)
        except BaseException as error:  # the user's source may raise anything
            answer = {"error": marks.of_error(error)}
        self._session.close()
        self._answers.put({**answer, "state": "ended", "breakpoints": self._breaks.shown()})

    def _launches(self) -> Answer:
        bound, arrays = setup.bound(self._job), setup.arrays(self._job)
        before = {name: results.bits(array) for name, array in arrays.items()}
        bound.run({**arrays, **self._job.sizes})
        return {"results": [results.shown(self._job, n, a, before[n]) for n, a in arrays.items()]}

    def _talk(self, debugger: Debugger) -> None:
        """Execute what the page asks until the launch goes on to its end."""
        self._answers.put(self._view(debugger))
        while debugger.stop is not None:
            try:
                looked = self._asked.get()(debugger)
            except Error as error:  # the launch is where it was
                looked = {"state": "stopped", "problem": str(error)}
            if debugger.stop is not None:
                self._answers.put(looked if looked is not None else self._view(debugger))

    def _view(self, debugger: Debugger) -> Answer:
        return {**stopped.view(debugger), "breakpoints": self._breaks.shown()}

    # ---- in the thread that asks -----------------------------------------------------------------
    def answer(self) -> Answer:
        """The next answer of the job; without one, the launch runs."""
        try:
            found = self._answers.get(timeout=ANSWER_S)
        except queue.Empty:
            return {"state": "running"}
        self._state = found.get("state", "stopped")
        self.over = self._state == "ended"
        return found

    def ask(self, command: str, given: Given) -> Answer:
        """Execute a command on the stopped launch."""
        if command in ("wait", "pause"):
            if self._state == "running" and command == "pause":
                self._breaks.interrupt()
            return self.answer() if self._state == "running" else self._put(self._view)
        if self._state == "running":
            raise ArgumentError("the launch runs", got=command, next="pause it, or wait")
        if command == "breakpoints":
            wanted = stopped.breakpoints(given)
            return self._put(lambda d: self._breaks.replace(wanted))
        if command in LOOKS:
            return self._put(lambda d: {"state": "stopped", **LOOKS[command](d, given)})
        return self._move(lambda d: MOVES[command](d, given))

    def _put(self, look: Callable[[Debugger], Answer | None]) -> Answer:
        self._state = "running"
        self._asked.put(look)
        return self.answer()

    def _move(self, move: Callable[[Debugger], object]) -> Answer:
        def moved(debugger: Debugger) -> None:
            move(debugger)

        return self._put(moved)

    def end(self) -> bool:
        """Ends the launch where it is; False for one that does not stop."""
        if self._state == "running" and not self.over:
            self._breaks.interrupt()
        self._asked.put(lambda debugger: debugger.end())
        self._thread.join(END_S)
        self.over = not self._thread.is_alive()
        return self.over


_run: DebugRun | None = None


def perform(do: str, job: Given, limit: float, include: Sequence[str]) -> Answer:
    """Execute one command of the page: {"command", "session", …}."""
    global _run
    command = str(job.get("command", ""))
    if command == "start":
        if _run is not None and not _run.over and not _run.end():
            raise ArgumentError("the launch before does not end", next="stop it, and start again")
        prepared = setup.prepared(read(job.get("job") or {}), include)
        programs.refuse(prepared, "debug")
        os.environ[TRITON_NAMES] = "1"  # read when Triton compiles
        _run = DebugRun(prepared, stopped.breakpoints(job))
        return {"session": _run.name, **_run.answer()}
    if command not in (*MOVES, *LOOKS, "wait", "pause", "breakpoints", "end"):
        raise ArgumentError("the debugger has no such command", got=command)
    if _run is None or _run.name != job.get("session") or _run.over:
        raise ArgumentError(
            "this launch is no longer under the debugger", next="Debug starts it again"
        )
    if command == "end":
        return {"state": "ended" if _run.end() else "running"}
    return _run.ask(command, job)
