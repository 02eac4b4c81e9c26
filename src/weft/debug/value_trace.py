"""Traces a variable of one thread: its line, old and new value at every change."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from weft.debug.debugger import Debugger
from weft.debug.session import DebugSession
from weft.debug.stops import StopOn
from weft.device.base import Dim3
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.expressions import parse
from weft.device.sim.tools.debugger.layout import Arm, ControlFields
from weft.device.sim.tools.debugger.observer import DebugObserver, Hit
from weft.device.sim.tools.debugger.state import Thread
from weft.device.sim.tools.debugger.values import Value
from weft.errors import Error


@dataclass(frozen=True)
class TraceRequest:
    """A variable to trace: an expression, in one thread of a kernel's launches."""

    kernel: str
    variable: str
    thread: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    as_json: bool = False


@dataclass(frozen=True)
class Change:
    """A new value, and the line that has made it; `old` is None for the first value."""

    file: str
    line: int
    old: object
    new: object
    text: tuple[str, str]
    quote: str


class Trace(Debugger):
    """One launch that runs to its end, while the values of an expression are noted."""

    def __init__(self, asked: LaunchRequest, request: TraceRequest) -> None:
        super().__init__(asked, (), StopOn(fault=False))
        self.request, self.node = request, parse(request.variable)
        self.changes: list[Change] = []
        self.reached = False
        self._value: Value | None = None
        self._line: tuple[str, int] | None = None
        self._missing: Error | None = None
        self.find(request.thread)  # raises for a thread that the block does not have

    def run(self) -> Sequence[Change]:
        """Run the launch and return the changes; raise what the launch raises."""
        self.start()
        if self.error is not None:
            raise self.error
        if self.reached and self._value is None and self._missing is not None:
            raise self._missing
        return self.changes

    def arm(self, observer: DebugObserver) -> None:
        """Call the host where the kernel begins: the block of the thread is not known before."""
        observer.table[:] = 0
        observer.table[self.source.starts[:1] or [0]] = Arm.ALWAYS
        self._all = self.source.starts or list(range(len(self.source.code)))

    def _wants(self, hit: Hit) -> bool:
        """Note the value at each line of the thread; nothing stops the launch."""
        asked, thread = self.request, self.state.thread(hit.slot, self.request.thread)
        if hit.warp != thread.warp or self.state.block_of(hit.slot) != asked.block:
            return False
        observer = self.launch.observer
        assert observer is not None
        if not self.reached:
            self.reached = True
            observer.words[ControlFields.SLOT // 8] = hit.slot
            observer.words[ControlFields.WARP // 8] = hit.warp
            observer.table[self._all] |= Arm.STEP
        if hit.lanes >> thread.lane & 1:
            self._note(hit, thread)
        return False

    def _note(self, hit: Hit, thread: Thread) -> None:
        ins = self.source.code[hit.index]
        # The kernel's own variable first: a called function may have one of the same name.
        for frame in reversed(self.stack(thread, ins)):
            try:
                value = self.names.value(self.node, thread, frame)
            except Error as error:
                self._missing = error
                continue
            self._compare(value)
            break
        self._line = self.source.line_of(ins)

    def _compare(self, value: Value) -> None:
        old = self._value
        if old is None or not _same(old, value):
            file, line = self._line or ("", 0)
            text = "" if old is None else str(old), str(value)
            before = None if old is None else old.python
            quote = self.source.quote(file, line).strip()
            self.changes.append(Change(file, line, before, value.python, text, quote))
        self._value = value


def _same(a: Value, b: Value) -> bool:
    """Return whether two values are equal; NaNs are."""
    nans = a.number != a.number and b.number != b.number
    return nans or (a.number, a.data) == (b.number, b.data)


def trace_launches(session: DebugSession, request: TraceRequest) -> None:
    """Let a session trace the launches of a kernel, and print the changes of each."""
    printer = _Printer(request)

    def handle(asked: LaunchRequest) -> None:
        sim, entry = asked.plan.sim, asked.plan.entry
        if request.kernel not in (entry, sim.name(entry)):
            asked.run()
            return
        trace = Trace(asked, request)
        try:
            changes = trace.run()
        finally:
            printer.launches += trace.reached
        if trace.reached:
            printer.show(changes)

    session.handle = handle
    session.missed = lambda: [] if printer.launches else [printer.nothing()]


class _Printer:
    def __init__(self, request: TraceRequest) -> None:
        self.request, self.launches = request, 0

    def nothing(self) -> str:
        """The reason why there is no trace."""
        r = self.request
        return (
            f"no launch of {r.kernel} has block {r.block}\n"
            "  next: see which kernels run: weft debug FILE"
        )

    def show(self, changes: Sequence[Change]) -> None:
        """Print the changes of one launch."""
        asked = self.request
        if asked.as_json:
            head = {**asdict(asked), "launch": self.launches}
            del head["as_json"]
            rows = [{k: v for k, v in asdict(c).items() if k != "text"} for c in changes]
            print(json.dumps({**head, "changes": rows}), flush=True)
            return
        where = f"block {asked.block}, thread {asked.thread}, launch {self.launches}"
        print(f"{asked.variable} in {asked.kernel}, {where}", flush=True)
        cells = [(_place(c), _moved(c), c.quote) for c in changes]
        wide = [max((len(row[i]) for row in cells), default=0) for i in (0, 1)]
        for place, moved, quote in cells:
            print(f"  {place:<{wide[0]}}  {moved:<{wide[1]}}  {quote}".rstrip())
        sys.stdout.flush()


def _place(change: Change) -> str:
    return f"{change.file}:{change.line}" if change.line else "at the start"


def _moved(change: Change) -> str:
    old, new = change.text
    return f"{old} -> {new}" if old else new
