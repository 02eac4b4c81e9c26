"""The breakpoints of the page: lines of the editor, with conditions, in every launch of a job."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.debug.breakpoints import Breakpoint, no_code
from weft.debug.debugger import Debugger
from weft.debug.session import DebugSession
from weft.errors import Error


@dataclass(eq=False)
class Break:
    """A breakpoint as the page knows it; `message` says why it stops no launch."""

    line: int
    condition: str = ""
    made: Breakpoint | None = None
    verified: bool = False
    message: str = ""

    def shown(self) -> dict[str, Any]:
        """The breakpoint for the page."""
        hits = self.made.hits if self.made is not None else 0
        return {"line": self.line, "condition": self.condition, "verified": self.verified,
                "message": self.message, "hits": hits}  # fmt: skip


class Breaks:
    """All breakpoints of the page. Without any, launches stop at their first line."""

    def __init__(
        self, session: DebugSession, file: str, wanted: Sequence[Mapping[str, Any]]
    ) -> None:
        self._session, self._file = session, file
        self._all: list[Break] = []
        self._live: Debugger | None = None
        self._set(wanted)
        if not self._all:
            session.chosen.append((None, "", Breakpoint(anywhere=True)))

    def shown(self) -> list[dict[str, Any]]:
        """All of them, for the page."""
        return [one.shown() for one in self._all]

    def replace(self, wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Set other breakpoints while a launch is stopped."""
        old = {one.made for one in self._all}
        self._session.chosen = [x for x in self._session.chosen if x[2] not in old]
        live = self._live
        if live is not None:
            live.breakpoints = [b for b in live.breakpoints if b not in old]
        self._set(wanted)
        if live is not None:
            for one in self._all:
                self._add(live, one)
        return {"state": "stopped", "breakpoints": self.shown()}

    def started(self, debugger: Debugger) -> None:
        """A launch begins: which breakpoints have code in it."""
        self._live = debugger
        for one in self._all:
            if one.made is None or one.made in debugger.breakpoints:
                one.verified = one.verified or one.made is not None
            elif not one.message:
                one.message = no_code(debugger.source, one.line, self._file).what

    def interrupt(self) -> None:
        """Stop the launch that runs at its next instruction; any thread may call it."""
        if self._live is not None and self._live.launch.running:
            self._live.interrupt()

    def _set(self, wanted: Sequence[Mapping[str, Any]]) -> None:
        self._all = [Break(int(w["line"]), str(w.get("condition") or "")) for w in wanted]
        for one in self._all:
            try:
                one.made = Breakpoint(
                    one.line,
                    one.condition,
                    file=self._file,
                    anywhere=True,
                    on_mistake=functools.partial(_mistake, one),
                )
            except Error as error:  # the condition is no expression
                one.message = str(error)
                continue
            self._session.chosen.append((None, "", one.made))

    def _add(self, live: Debugger, one: Break) -> None:
        if one.made is None:
            return
        try:
            live.add(one.made)
            one.verified = True
        except Error as error:
            one.message = str(error)


def _mistake(one: Break, error: Error) -> None:
    one.message = str(error)
