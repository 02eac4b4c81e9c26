"""Requests of an editor about a launch that is stopped: threads, frames, values, instructions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from weft.debug.commands import Commands
from weft.debug.dap.messages import Message
from weft.debug.dap.sources import Sources
from weft.debug.dap.variables import FrameRef, Variables
from weft.debug.debugger import Debugger
from weft.debug.history import make_watch
from weft.debug.watches import Watch
from weft.device.base import Dim3
from weft.device.sim.tools.debugger.source_map import Frame
from weft.device.sim.tools.debugger.state import Thread
from weft.errors import Error

_LOOKS = ("lanes", "warps", "locals", "registers", "stack", "list", "ptx", "print", "set")
"""Commands of the prompt that the editor's console also takes; the others have buttons."""


class Stopped:
    """Answers about one stop of a launch."""

    def __init__(self, debugger: Debugger, sources: Sources) -> None:
        self.debugger, self._sources = debugger, sources
        self._values = Variables(debugger)
        self._slot = debugger.focus.slot
        self._watches: dict[str, Watch] = {}
        self.answers: dict[str, Callable[[Message], Message]] = {
            "threads": self._threads,
            "stackTrace": self._stack,
            "scopes": lambda given: {"scopes": self._values.scopes(given["frameId"])},
            "variables": self._variables,
            "evaluate": self._evaluate,
            "setVariable": self._set,
            "disassemble": self._disassemble,
            "exceptionInfo": self._fault,
            "dataBreakpointInfo": self._watchable,
            "setDataBreakpoints": self._watch,
        }

    # ---- threads ----------------------------------------------------------------------------
    @property
    def thread_id(self) -> int:
        """The number of the thread that the debugger looks at."""
        return 1 + 32 * self.debugger.focus.warp + self.debugger.focus.lane

    def _threads(self, given: Message) -> Message:
        state = self.debugger.state
        block = state.block_of(self._slot)
        threads = [self.thread(n + 1) for n in range(state.program.threads)]
        return {
            "threads": [
                {"id": n, "name": _name(block, state.thread_index(t))}
                for n, t in enumerate(threads, 1)
            ]
        }

    def thread(self, number: int) -> Thread:
        """The thread with a number of the editor."""
        threads = self.debugger.state.program.threads
        if not 1 <= number <= threads:
            raise Error("the block has no such thread", got=str(number), allowed=f"1 to {threads}")
        return Thread(self._slot, (number - 1) // 32, (number - 1) % 32)

    def select(self, number: int) -> None:
        """Direct the focus of the debugger to a thread, which the next step moves."""
        state, thread = self.debugger.state, self.thread(number)
        self.debugger.select(state.thread_index(thread), state.block_of(self._slot))

    # ---- frames -----------------------------------------------------------------------------
    def _stack(self, given: Message) -> Message:
        d, thread = self.debugger, self.thread(given["threadId"])
        frames = d.frames(thread) if d.instruction(thread) is not None else []
        start = given.get("startFrame") or 0
        levels = given.get("levels") or len(frames)
        index = d.state.thread_index(thread)
        shown = [
            self._frame(FrameRef(index, start + i), frame)
            for i, frame in enumerate(frames[start : start + levels])
        ]
        return {"stackFrames": shown, "totalFrames": len(frames)}

    def _frame(self, place: FrameRef, frame: Frame) -> Message:
        head = {
            "id": self._values.frame_id(place),
            "name": frame.function,
            "column": 1,
            "instructionPointerReference": hex(frame.ins.index),
        }
        line = frame.line
        if line is None:
            return {**head, "line": 0, "presentationHint": "subtle"}
        source, number = self._sources.place(self.debugger.source, line.file, line.line)
        return {**head, "source": source, "line": number}

    def _disassemble(self, given: Message) -> Message:
        """Instructions of PTX; their addresses are their numbers in the kernel."""
        try:
            first = int(given["memoryReference"], 16) + (given.get("instructionOffset") or 0)
        except ValueError:
            raise Error(
                "no such instruction", got=given["memoryReference"], allowed="an address of a frame"
            ) from None
        return {"instructions": [self._line(first + i) for i in range(given["instructionCount"])]}

    def _line(self, index: int) -> Message:
        source = self.debugger.source
        if not 0 <= index < len(source.code):
            return {"address": hex(max(index, 0)), "instruction": "", "presentationHint": "invalid"}
        ins = source.code[index]
        shown: Message = {"address": hex(index), "instruction": ins.text}
        line = source.frame(ins).line
        if line is not None:
            shown["location"], shown["line"] = self._sources.place(source, line.file, line.line)
        return shown

    # ---- values -----------------------------------------------------------------------------
    def _variables(self, given: Message) -> Message:
        page = given.get("start") or 0, given.get("count") or 0
        return {"variables": self._values.children(given["variablesReference"], *page)}

    def _evaluate(self, given: Message) -> Message:
        text, d = given["expression"].strip(), self.debugger
        frame = FrameRef(d.thread, d.frame_number)
        if number := given.get("frameId"):
            frame = self._values.look_at(number)
        if given.get("context") == "repl" and text.split(" ", 1)[0] in _LOOKS:
            return {"result": Commands(d).run(text).text, "variablesReference": 0}
        shown = self._values.shown(frame, text, d.value(text), text)
        kept = ("type", "variablesReference", "indexedVariables")
        return {"result": shown["value"], **{k: shown[k] for k in kept if k in shown}}

    def _set(self, given: Message) -> Message:
        expression = self._values.expression(given["variablesReference"], given["name"])
        new = self.debugger.set(expression, given["value"])
        return {"value": str(new), "type": new.type.name, "variablesReference": 0}

    def _fault(self, given: Message) -> Message:
        stop, error = self.debugger.stop, self.debugger.error
        assert stop is not None
        name = type(error).__name__ if stop.failed else stop.reason
        text = str(error) if stop.failed else stop.reason
        return {"exceptionId": name, "description": text, "breakMode": "always"}

    # ---- watched memory ---------------------------------------------------------------------
    def _watchable(self, given: Message) -> Message:
        if number := given.get("frameId"):
            self._values.look_at(number)
        text = given["name"]
        if reference := given.get("variablesReference"):
            text = self._values.expression(reference, text)
        try:
            made = make_watch(self.debugger, text)
        except Error as error:
            return {"dataId": None, "description": error.what}
        key = f"{text} at {made.place.start:#x}"
        self._watches[key] = made
        return {"dataId": key, "description": text, "accessTypes": ["write"]}

    def _watch(self, given: Message) -> Message:
        d, wanted = self.debugger, [x["dataId"] for x in given["breakpoints"]]
        known = {**{w.text: w for w in d.watches}, **self._watches}
        d.watches = [replace_text(known[key], key) for key in wanted if key in known]
        return {"breakpoints": [{"verified": key in known} for key in wanted]}


def replace_text(watch: Watch, text: str) -> Watch:
    """A watch under the name by which the editor knows it."""
    return Watch(text, watch.place, watch.writers)


def _name(block: Dim3, thread: Dim3) -> str:
    return "block ({},{},{}) thread ({},{},{})".format(*itertools.chain(block, thread))
