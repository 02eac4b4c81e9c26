"""Hands launches that have breakpoints to the debugger: `weft.breakpoint`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from weft.debug.breakpoints import Breakpoint, index3, no_code
from weft.debug.checking import check as look
from weft.debug.debugger import Debugger
from weft.debug.scouting import scout
from weft.debug.stops import StopOn
from weft.device.base import Program
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.execution import Ended
from weft.errors import Error, expect
from weft.kernels.code import KernelCode

_one_at_a_time = threading.Lock()
_inside = threading.local()


class DebugSession:
    """The session of the simulated GPU while there are breakpoints."""

    def __init__(self) -> None:
        self.chosen: list[tuple[Program | None, str, Breakpoint]] = []
        """The program and the kernel of each breakpoint; None and "" for any."""
        self.stop_on = StopOn()
        self.every = False
        """True if launches without breakpoints also stop, at faults and other events."""
        self.talk: Callable[[Debugger], None] | None = None
        self.handle: Callable[[LaunchRequest], None] | None = None
        """Handles a launch in another way than from breakpoint to breakpoint."""
        self.missed: Callable[[], list[str]] | None = None
        """Lists what such a handler has not reached."""
        self.started: Callable[[Debugger], None] | None = None
        """Called before each launch that runs under the debugger."""
        self.leave: Callable[[int], Any] | None = None
        """Ends the process when the user quits; None: the launch raises."""
        self.buffers: dict[int, Any] = {}
        """Memory of the last launch, by address: see `scouting`."""
        self.without_code: dict[Breakpoint, str] = {}
        """Breakpoints at lines without code in the kernels that were launched, and the reason."""

    def close(self) -> None:
        """Give launches back to the session that has them without this one."""
        global _session
        if _session is self:
            settings.leave(self)
            _session = None

    def unreached(self) -> list[str]:
        """The breakpoints that have stopped no launch, each with the reason."""
        if self.missed is not None:
            return self.missed()
        never = [b for _, _, b in self.chosen if not b.hits]
        return [f"{b.place} stopped no launch\n  {self._why(b)}" for b in never]

    def _why(self, missed: Breakpoint) -> str:
        return self.without_code.get(missed, "next: see whether a kernel reaches it")

    def breakpoints(self, asked: LaunchRequest) -> list[Breakpoint]:
        """The breakpoints of the kernel of a launch."""
        sim, entry = asked.plan.sim, asked.plan.entry
        names = {entry, sim.name(entry), *(n for n, e in sim.ptx.entries.items() if e == entry)}
        return [
            b
            for program, name, b in self.chosen
            if (program is None or program is sim.program) and (not name or name in names)
        ]

    def remove(self, made: Breakpoint) -> None:
        """Forget a breakpoint."""
        self.chosen = [x for x in self.chosen if x[2] is not made]

    def run(self, asked: LaunchRequest) -> None:
        """Run one launch: under the debugger if it has breakpoints."""
        mine = self.breakpoints(asked)
        # A launch that the user starts while another is stopped runs without stops.
        if (not mine and not self.every) or getattr(_inside, "debugs", False):
            self._plain(asked)
            return
        with _one_at_a_time:
            _inside.debugs = True
            try:
                if self.handle is not None:
                    self.handle(asked)
                else:
                    self._debug(asked, mine)
            finally:
                _inside.debugs = False

    def _plain(self, asked: LaunchRequest) -> None:
        other = settings.below(self)
        if other is not None:
            other.run(asked)
        else:
            asked.run()

    def _debug(self, asked: LaunchRequest, mine: Sequence[Breakpoint]) -> None:
        first: int | None = 0
        events = self.stop_on.barrier or self.stop_on.nan
        if mine and not events and not any(b.anywhere for b in mine):
            first = scout(asked, mine, self.buffers)
        if first is None:
            return
        debugger = Debugger(asked, mine, self.stop_on, first=first)
        for b in mine:
            if b not in debugger.breakpoints and b.line is not None:
                self.without_code[b] = str(no_code(debugger.source, b.line, b.file))
        if not debugger.breakpoints and not self.every:
            self._plain(asked)
            return
        if self.started is not None:
            self.started(debugger)
        self.converse(debugger, debugger.start)

    def converse(self, debugger: Debugger, start: Callable[[], object]) -> None:
        """Run a launch from stop to stop; raise the error that it ends with."""
        try:
            stop = start()
            while stop is not None:
                self._at(debugger)
                if debugger.stop is None:
                    break
                stop = debugger.cont()
        except BaseException:
            debugger.end()
            raise
        if isinstance(debugger.error, Ended):
            if self.leave is not None:
                self.leave(1)
            raise Error("the launch was ended in the debugger", got=debugger.kernel)
        if debugger.error is not None:
            raise debugger.error

    def _at(self, debugger: Debugger) -> None:
        stop = debugger.stop
        chosen = stop.breakpoint if stop is not None else None
        # Other stops, e.g. faults, are for a function, too, where one handles the launch's stops.
        of_launch = [chosen] if chosen is not None else debugger.breakpoints
        handler = next((b.on_stop for b in of_launch if b.on_stop is not None), None)
        if handler is not None:
            handler(debugger)
            return
        if self.talk is not None:
            self.talk(debugger)
            return
        from weft.debug.terminal import talk  # programs that handle stops do without

        talk(debugger)


_session: DebugSession | None = None


def breakpoint(
    kernel: Any,
    line: int | None = None,
    condition: str = "",
    thread: Any = None,
    block: Any = None,
    *,
    on_stop: Callable[[Debugger], Any] | None = None,
) -> Breakpoint:
    """Stop launches of a kernel on the simulated GPU at a line, and open the debugger there.

    kernel     a kernel of `weft.cuda` or `weft.load_ptx`
    line       the line of the source; by default the kernel's first line
    condition  a C++ expression over the variables of the line, e.g. "i == 37 && acc > 1.5f"
    thread     the only thread that stops: `threadIdx`, a number or up to three
    block      the only block that stops: `blockIdx`
    on_stop    a function that is called with the Debugger at each stop of the launch, faults too,
               instead of the prompt

    It holds until `delete()`, or the end of a `with` block.

    >>> def show(debugger):
    ...     print(debugger.thread, debugger.value("i"), debugger.value("a * 2"))
    >>> with weft.breakpoint(module.scale, line=4, condition="i == 3", on_stop=show):
    ...     module.scale[1, 32](x, 1.0, 4)
    (3, 0, 0) 3 2.0
    """
    expect("kernel", kernel, KernelCode, allowed="a kernel of weft.cuda or weft.load_ptx")
    if line is not None:
        expect("line", line, int, allowed="the number of a line")
    expect("condition", condition, str, allowed="a C++ expression as a string")
    if kernel.home is not None:
        raise Error(
            "breakpoints stop launches on the simulated GPU only",
            got=f"{kernel.name}, compiled for a real GPU",
            next='leave device="gpu" out, and give it arrays in host memory',
        )
    made = Breakpoint(
        line, condition, index3("thread", thread), index3("block", block), on_stop=on_stop
    )
    look(kernel, made)
    session = open_session()
    session.chosen.append((kernel.program, kernel.entry, made))
    made.remove_with(_remove)
    return made


def open_session() -> DebugSession:
    """The session, which receives all launches from now on."""
    global _session
    if _session is None:
        _session = DebugSession()
        settings.enter(_session)
    elif settings.current is not _session:  # e.g. a sanitizer was turned on since
        settings.leave(_session)
        settings.enter(_session)
    return _session


def _remove(made: Breakpoint) -> None:
    if _session is None:
        return
    _session.remove(made)
    if not _session.chosen:
        _session.close()
