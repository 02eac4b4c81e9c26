"""Breakpoints of an editor: lines, kernels, events and watched memory."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.debug.breakpoints import Breakpoint
from weft.debug.dap.messages import Channel, Message
from weft.debug.dap.sources import Sources
from weft.debug.debugger import Debugger
from weft.debug.session import DebugSession
from weft.debug.stops import StopOn
from weft.errors import Error

_WAITS = "no kernel with code at this line has been launched yet"


@dataclass(eq=False)
class _Entry:
    """A breakpoint as the editor knows it, by its number."""

    number: int
    made: Breakpoint | None = None
    kernel: str = ""
    verified: bool = False
    message: str = ""

    def shown(self) -> Message:
        """The breakpoint in the words of the protocol."""
        text = {"message": self.message} if self.message and not self.verified else {}
        line = {"line": self.made.line} if self.made is not None and self.made.line else {}
        return {"id": self.number, "verified": self.verified, **text, **line}


class EditorBreakpoints:
    """All breakpoints of an editor. A request replaces those of one source, or of one kind."""

    def __init__(self, channel: Channel, session: DebugSession, sources: Sources) -> None:
        self._channel, self._session, self._sources = channel, session, sources
        self._numbers = itertools.count(1)
        self._groups: dict[object, list[_Entry]] = {}
        self.live: Debugger | None = None
        """The launch that is debugged now."""

    def lines(self, given: Message) -> list[Message]:
        """setBreakpoints: lines of one source."""
        source = given["source"]
        if path := source.get("path"):
            self._sources.files.add(os.path.abspath(path))
        wanted = given.get("breakpoints") or [{"line": line} for line in given.get("lines", ())]
        key = source.get("path") or ("reference", source.get("sourceReference"))
        return self._replace(key, [functools.partial(self._line, source, w) for w in wanted])

    def kernels(self, given: Message) -> list[Message]:
        """setFunctionBreakpoints: first lines of kernels."""
        return self._replace("", [functools.partial(self._kernel, w) for w in given["breakpoints"]])

    def events(self, given: Message) -> None:
        """setExceptionBreakpoints: faults, the first NaN, barriers."""
        chosen = [*given["filters"], *(x["filterId"] for x in given.get("filterOptions", ()))]
        self._session.stop_on = StopOn(*(word in chosen for word in ("fault", "barrier", "nan")))
        if self.live is not None:
            nan = self.live.stop_on.nan and "nan" in chosen  # its code may not look for NaNs
            self.live.stop_on = replace(self._session.stop_on, nan=nan)
            self.live.arm_again()

    def numbers(self, stopped: Breakpoint | None) -> list[int]:
        """The editor's number of the breakpoint that has stopped a launch."""
        entries = itertools.chain(*self._groups.values())
        return [e.number for e in entries if stopped is not None and e.made is stopped]

    def entry_stop(self) -> None:
        """Stop at the first line of each kernel."""
        self._session.chosen.append((None, "", Breakpoint(anywhere=True)))

    # ---- one breakpoint ---------------------------------------------------------------------
    def _line(self, source: Message, wanted: Message, entry: _Entry) -> Breakpoint:
        return Breakpoint(
            wanted["line"],
            wanted.get("condition") or "",
            file=source.get("path") or source.get("name"),
            anywhere=True,
            locate=lambda kernel: self._sources.lines(kernel, source, wanted["line"]),
            on_mistake=functools.partial(self._mistake, entry),
        )

    def _kernel(self, wanted: Message, entry: _Entry) -> Breakpoint:
        entry.kernel = wanted["name"]
        return Breakpoint(
            condition=wanted.get("condition") or "",
            anywhere=True,
            on_mistake=functools.partial(self._mistake, entry),
        )

    def _replace(
        self, key: object, makers: Sequence[Callable[[_Entry], Breakpoint]]
    ) -> list[Message]:
        old = {e.made for e in self._groups.pop(key, ()) if e.made is not None}
        session, live = self._session, self.live
        session.chosen = [x for x in session.chosen if x[2] not in old]
        if live is not None:
            live.breakpoints = [b for b in live.breakpoints if b not in old]
        entries = self._groups[key] = []
        for make in makers:
            entry = _Entry(next(self._numbers), message=_WAITS)
            entries.append(entry)
            try:
                entry.made = make(entry)
            except Error as error:
                entry.message = str(error)
                continue
            session.chosen.append((None, entry.kernel, entry.made))
            if live is not None and not entry.kernel:
                self._add(live, entry)
        if live is not None:
            live.arm_again()
        return [e.shown() for e in entries]

    def _add(self, live: Debugger, entry: _Entry) -> None:
        """Add a breakpoint to the launch that is debugged now."""
        made = entry.made
        assert made is not None
        if made.concerns(live.source):
            try:
                live.add(made)
            except Error as error:
                entry.message = str(error)
                return
            entry.verified = True

    # ---- launches ---------------------------------------------------------------------------
    def started(self, debugger: Debugger) -> None:
        """Tell the editor which breakpoints a launch has."""
        self.live = debugger
        for entry in itertools.chain(*self._groups.values()):
            if entry.made in debugger.breakpoints and not entry.verified:
                entry.verified = True
                self._tell(entry)

    def _mistake(self, entry: _Entry, error: Error) -> None:
        if entry.message != str(error):
            entry.message = str(error)
            self._tell(entry)

    def _tell(self, entry: _Entry) -> None:
        self._channel.event("breakpoint", reason="changed", breakpoint=entry.shown())
