"""The commands of the debugger: a line of text to an answer, as text and as data."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from weft.debug import shown
from weft.debug.breakpoints import Breakpoint, index3
from weft.debug.debugger import Debugger
from weft.device.base import Dim3
from weft.device.sim.tools.debugger.values import Value
from weft.errors import Error

_SHORT = {
    "b": "break", "c": "continue", "s": "step", "n": "next", "si": "stepi", "p": "print",
    "l": "list", "bt": "stack", "where": "stack", "q": "quit", "w": "warps", "r": "registers",
    "h": "help", "?": "help",
}  # fmt: skip
_BREAK = re.compile(r"(?:(?P<file>[^:\s]+):)?(?P<line>\d+)?\s*(?:if\s+(?P<condition>.+))?\Z")


@dataclass(frozen=True)
class Answer:
    """The answer of a command."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)


class Commands:
    """Executes commands on a stopped launch. `over` is True when it has ended or goes on alone."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self.over = False
        self._last = ""

    @property
    def names(self) -> list[str]:
        """The names of all commands."""
        found = (n.removeprefix("do_") for n in dir(self) if n.startswith("do_"))
        return sorted(found)

    def run(self, line: str) -> Answer:
        """Execute a line; an empty one repeats the last command that moves the launch."""
        text = line.strip() or self._last
        if not text:
            return Answer("")
        word, _, rest = text.partition(" ")
        name = _SHORT.get(word, word)
        method: Callable[[str], Answer] | None = getattr(self, f"do_{name}", None)
        if method is None:
            raise Error(f"no command '{word}'", allowed=", ".join(self.names), next="help")
        self._last = text if name in ("step", "next", "stepi", "continue") else ""
        return method(rest.strip())

    def stopped(self) -> Answer:
        """Describe the stop."""
        if self.debugger.stop is None:
            self.over = True
            error = self.debugger.error
            text = "the launch has ended" + (f" with {type(error).__name__}" if error else "")
            return Answer(text, {"ended": True})
        return Answer(shown.stop(self.debugger), {"stop": shown.stop_data(self.debugger)})

    # ---- going on ---------------------------------------------------------------------------
    def do_continue(self, rest: str) -> Answer:
        """continue: run to the next stop."""
        self.debugger.cont()
        return self.stopped()

    def do_step(self, rest: str) -> Answer:
        """step [N]: run the warp to the next line, also in functions."""
        return self._times(rest, self.debugger.step)

    def do_next(self, rest: str) -> Answer:
        """next [N]: run the warp to the next line of this function."""
        return self._times(rest, self.debugger.next)

    def do_stepi(self, rest: str) -> Answer:
        """stepi [N]: execute one PTX instruction of the warp."""
        return self._times(rest, self.debugger.stepi)

    def do_finish(self, rest: str) -> Answer:
        """finish: run the warp until the function returns."""
        self.debugger.finish()
        return self.stopped()

    def _times(self, rest: str, move: Callable[[], Any]) -> Answer:
        for _ in range(_count(rest, 1)):
            if move() is None:
                break
        return self.stopped()

    def do_back(self, rest: str) -> Answer:
        """back EXPRESSION: go back to the last write of a value."""
        self.debugger.back(_needed(rest, "an expression"))
        return self.stopped()

    def do_detach(self, rest: str) -> Answer:
        """detach: let the launch go on to its end without stops."""
        self.debugger.detach()
        return self.stopped()

    def do_quit(self, rest: str) -> Answer:
        """quit: end the launch where it is."""
        self.debugger.end()
        self.over = True
        return Answer("the launch was ended", {"ended": True})

    # ---- stops ------------------------------------------------------------------------------
    def do_break(self, rest: str) -> Answer:
        """break [FILE:]LINE [if CONDITION]: stop at a line; without one, list the breakpoints."""
        if not rest:
            lines = [f"{b}, hit {b.hits} times" for b in self.debugger.breakpoints]
            lines += [f"watch of {w.text}" for w in self.debugger.watches]
            return Answer("\n".join(lines) or "no breakpoints", {"breakpoints": lines})
        made = self.debugger.add(parse_breakpoint(rest))
        return Answer(f"{made}", {"breakpoint": made.number})

    def do_delete(self, rest: str) -> Answer:
        """delete N: remove a breakpoint; without a number, remove all and the watches."""
        d = self.debugger
        gone = [b for b in d.breakpoints if not rest or str(b.number) == rest]
        if rest and not gone:
            raise Error(f"no breakpoint {rest}", next="`break` lists them")
        d.breakpoints = [b for b in d.breakpoints if b not in gone]
        if not rest:
            d.watches = []
        for b in gone:
            b.delete()
        return Answer(f"{len(gone)} deleted", {"deleted": [b.number for b in gone]})

    def do_watch(self, rest: str) -> Answer:
        """watch EXPRESSION: stop before each write of a value in memory."""
        made = self.debugger.watch(_needed(rest, "an expression"))
        return Answer(f"watching {made.text}", {"watch": made.text})

    def do_barriers(self, rest: str) -> Answer:
        """barriers on|off: stop where warps arrive at barriers."""
        if rest not in ("on", "off"):
            raise Error("barriers takes on or off", got=rest or "nothing")
        d = self.debugger
        d.stop_on = replace(d.stop_on, barrier=rest == "on")
        return Answer(f"barriers {rest}", {"barriers": rest == "on"})

    # ---- values -----------------------------------------------------------------------------
    def do_print(self, rest: str) -> Answer:
        """print EXPRESSION: the value of a C++ expression for the thread."""
        value = self.debugger.value(_needed(rest, "an expression"))
        return Answer(f"{rest} = {value}", _data(rest, value))

    def do_lanes(self, rest: str) -> Answer:
        """lanes EXPRESSION: its value in each thread of the warp."""
        values = self.debugger.lanes(_needed(rest, "an expression"))
        data = [None if v is None else v.python for v in values]
        return Answer(shown.lanes(self.debugger, values), {"lanes": data})

    def do_locals(self, rest: str) -> Answer:
        """locals: the variables of the frame."""
        found = self.debugger.variables()
        lines = [
            f"{n} = {v}" if isinstance(v, Value) else f"{n}: {v.what}" for n, v in found.items()
        ]
        data = {n: v.python if isinstance(v, Value) else None for n, v in found.items()}
        return Answer("\n".join(lines) or "no variables are known here", {"locals": data})

    def do_registers(self, rest: str) -> Answer:
        """registers: the PTX registers of the function that the code writes."""
        found = self.debugger.registers()
        lines = [f"{n} = {v}" for n, v in found.items()]
        data = {n: v.python for n, v in found.items()}
        return Answer("\n".join(lines), {"registers": data})

    def do_set(self, rest: str) -> Answer:
        """set PLACE = VALUE: change a value in memory."""
        place, sign, value = rest.partition("=")
        if not sign or not value.strip():
            raise Error("set takes a place and a value", got=rest, next="set x[3] = 1.5")
        new = self.debugger.set(place.strip(), value.strip())
        return Answer(f"{place.strip()} = {new}", _data(place.strip(), new))

    # ---- places -----------------------------------------------------------------------------
    def do_stack(self, rest: str) -> Answer:
        """stack: the call stack of the thread."""
        return Answer(shown.frames(self.debugger), {"frames": shown.frames_data(self.debugger)})

    def do_frame(self, rest: str) -> Answer:
        """frame N: select a frame of the call stack; 0 is the innermost."""
        self.debugger.select_frame(_count(rest, 0, low=0))
        return self.do_stack("")

    def do_list(self, rest: str) -> Answer:
        """list: the source around the line."""
        return Answer(shown.listing(self.debugger), {"line": shown.line_data(self.debugger.here)})

    def do_ptx(self, rest: str) -> Answer:
        """ptx: the PTX instructions around the place."""
        return Answer(shown.instructions(self.debugger), {"ptx": self.debugger.here.ins.text})

    def do_warps(self, rest: str) -> Answer:
        """warps: all warps of running blocks: where each is, its lanes, and what it waits for."""
        views = list(self.debugger.warps())
        data = [shown.warp_data(self.debugger, v) for v in views]
        return Answer(shown.warps(self.debugger, views), {"warps": data})

    def do_thread(self, rest: str) -> Answer:
        """thread X[,Y[,Z]]: look at another thread of the block."""
        self.debugger.select(indices(rest, "thread"))
        return Answer(shown.focus(self.debugger), {"focus": shown.focus_data(self.debugger)})

    def do_block(self, rest: str) -> Answer:
        """block X[,Y[,Z]]: look at the first thread of another running block."""
        self.debugger.select((0, 0, 0), indices(rest, "block"))
        return Answer(shown.focus(self.debugger), {"focus": shown.focus_data(self.debugger)})

    def do_help(self, rest: str) -> Answer:
        """help: all commands."""
        docs = [inspect.getdoc(getattr(self, f"do_{n}")) or n for n in self.names]
        short = ", ".join(f"{k} = {v}" for k, v in _SHORT.items() if k != "?")
        return Answer("\n".join([*docs, f"short: {short}"]), {"commands": self.names})


def parse_breakpoint(text: str, *, anywhere: bool = False) -> Breakpoint:
    """A breakpoint as text: `[FILE:]LINE [if CONDITION]`, or `if CONDITION` alone."""
    found = _BREAK.match(text.strip())
    if found is None or not text.strip():
        raise Error("a breakpoint is a line and a condition", got=text, next="12, or 12 if i == 37")
    line = found["line"]
    return Breakpoint(
        None if line is None else int(line),
        found["condition"] or "",
        file=found["file"],
        anywhere=anywhere,
    )


def _needed(rest: str, what: str) -> str:
    if not rest:
        raise Error(f"{what} is missing")
    return rest


def _count(text: str, default: int, low: int = 1) -> int:
    if not text:
        return default
    if not text.isdecimal() or int(text) < low:
        raise Error("a number is expected", got=text, allowed=f"{low} or more")
    return int(text)


def indices(text: str, what: str) -> Dim3:
    """A thread or a block as text: one to three numbers; raise Error for anything else."""
    parts = [x for x in re.split(r"[\s,()]+", text) if x]
    if not parts or not all(x.isdecimal() for x in parts):
        raise Error(f"{what} takes one to three numbers", got=text or "nothing")
    found = index3(what, tuple(int(x) for x in parts))
    assert found is not None
    return found


def _data(text: str, value: Value) -> dict[str, Any]:
    return {"expression": text, "value": value.python, "type": value.type.name}
