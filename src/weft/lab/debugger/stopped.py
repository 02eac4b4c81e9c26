"""A stopped launch as JSON for the page: place, lanes, variables, PTX; and what the page asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.debug import shown
from weft.debug.debugger import Debugger
from weft.device.base import Dim3
from weft.device.sim.tools.debugger.source_map import Frame
from weft.device.sim.tools.debugger.state import Thread
from weft.device.sim.tools.debugger.values import Value
from weft.errors import ArgumentError, Error
from weft.lab.job import LONGEST_LINE, ROWS, own

AROUND = 12
"""Instructions before and after the place."""
BLOCKS = 64
"""Blocks that the page can choose among."""
Given = Mapping[str, Any]


def view(d: Debugger) -> dict[str, Any]:
    """Everything that the page shows of a stop."""
    assert d.stop is not None
    place = shown.stop_data(d)
    blocks = [list(d.state.block_of(slot)) for slot in d.state.slots()[:BLOCKS]]
    return {
        "state": "stopped",
        "kernel": d.kernel,
        "reason": d.stop.reason,
        "failed": str(d.error) if d.stop.failed else "",
        "function": place["function"],
        "line": _line(d.here),
        "block": list(d.block),
        "thread": list(d.thread),
        "shape": list(d.state.program.shape),
        "blocks": blocks,
        "warp": d.focus.warp,
        "lane": d.focus.lane,
        "frames": [[frame.function, _line(frame)] for frame in d.frames()],
        "frame": d.frame_number,
        "warps": _warps(d),
        "variables": [_variable(name, value) for name, value in d.variables().items()],
        "ptx": _ptx(d),
    }


def value(d: Debugger, text: str) -> dict[str, Any]:
    """The value of an expression for the focus, and in each lane of its warp."""
    found = d.value(text)
    lanes = [None if one is None else str(one) for one in d.lanes(text)]
    return {"value": str(found), "type": found.type.name, "lanes": lanes}


def registers(d: Debugger) -> list[list[str]]:
    """The PTX registers of the frame that the code writes."""
    return [[name, str(found)] for name, found in d.registers().items()]


def _line(frame: Frame) -> int:
    """The line of the editor; 0 for code of another file."""
    line = frame.line
    return line.line if line is not None and own(line.file) else 0


def _variable(name: str, found: Value | Error) -> dict[str, str]:
    if isinstance(found, Error):
        return {"name": name, "value": "", "type": "", "problem": found.what}
    return {"name": name, "value": str(found), "type": found.type.name, "problem": ""}


def _warps(d: Debugger) -> list[dict[str, Any]]:
    """The warps of the focus's block: state, masks, and the line of each lane."""
    block, slot = d.block, d.focus.slot
    out = []
    for one in d.warps():
        if one.block != block:
            continue
        threads = d.state.lanes_of(one.warp)
        lines = [_lane(d, Thread(slot, one.warp, lane)) for lane in range(threads.bit_length())]
        active = _active(d, one.warp, one.active)
        out.append({"warp": one.warp, "state": one.state, "active": active, "done": one.done,
                    "lines": lines})  # fmt: skip
    return out


def _active(d: Debugger, warp: int, active: int) -> int:
    """The lanes that execute: at the stop, those of the instruction."""
    assert d.stop is not None
    here = (d.focus.slot, warp) == (d.stop.hit.slot, d.stop.hit.warp)
    return d.stop.hit.lanes & d.state.lanes_of(warp) if here else active


def _lane(d: Debugger, thread: Thread) -> int:
    ins = d.instruction(thread)
    at = None if ins is None else d.source.line_of(ins)
    return at[1] if at is not None and own(at[0]) else 0


def _ptx(d: Debugger) -> list[list[Any]]:
    """[PTX line, text, source line, whether it comes next] around the place."""
    at = d.here.ins.index
    return [
        [ins.ptx_line, " ".join(ins.text.split()), _line(d.source.frame(ins)), ins.index == at]
        for ins in d.source.code[max(0, at - AROUND) : at + AROUND + 1]
    ]


# ---- from JSON -----------------------------------------------------------------------------------
def expression(given: Given) -> str:
    """The expression of a command."""
    text = given.get("expression")
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_LINE:
        raise ArgumentError("an expression is missing", got=repr(text)[:80], next="e.g. x[i]")
    return text.strip()


def number(given: Given, name: str) -> int:
    """A whole number of a command."""
    found = given.get(name)
    if type(found) is not int:
        raise ArgumentError(f"'{name}' is a whole number", got=repr(found)[:80])
    return found


def indices(given: Given) -> tuple[Dim3, Dim3 | None]:
    """The thread of a command, and its block."""
    thread = _index(given, "thread")
    return thread, _index(given, "block") if given.get("block") is not None else None


def _index(given: Given, name: str) -> Dim3:
    found = given.get(name)
    if not isinstance(found, list) or len(found) != 3 or any(type(n) is not int for n in found):
        raise ArgumentError(f"'{name}' has three numbers", got=repr(found)[:80])
    x, y, z = found
    return x, y, z


def breakpoints(given: Given) -> list[Given]:
    """The breakpoints of a command: rows with a line and a condition."""
    rows = given.get("breakpoints", [])
    if not isinstance(rows, list) or len(rows) > ROWS:
        raise ArgumentError(f"'breakpoints' is a list of at most {ROWS} rows")
    for row in rows:
        fits = isinstance(row, dict) and type(row.get("line")) is int and row["line"] > 0
        if not fits or len(str(row.get("condition") or "")) > LONGEST_LINE:
            raise ArgumentError("a breakpoint has a line, 1 or above", got=repr(row)[:80])
    return rows
