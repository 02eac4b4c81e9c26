"""The views of a stopped launch as text, and as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.debug.debugger import Debugger
from weft.debug.inspection import WarpView
from weft.device.sim.tools.debugger.source_map import Frame
from weft.device.sim.tools.debugger.values import Value
from weft.ptx.model import Instruction

AROUND = 4
"""Lines of a listing before and after the place."""


def _place(frame: Frame) -> str:
    line = frame.line
    return f"PTX line {frame.ins.ptx_line}" if line is None else f"{line.file}:{line.line}"


def focus(d: Debugger) -> str:
    """Block, thread and line of the focus."""
    frame = d.here
    quote = "" if frame.line is None else d.source.quote(frame.line.file, frame.line.line).strip()
    where = f"block {d.block}, thread {d.thread}, {_place(frame)} in {frame.function}"
    return f"{where}\n    {quote}" if quote else f"{where}\n    {frame.ins.text}"


def focus_data(d: Debugger) -> dict[str, Any]:
    return {"block": list(d.block), "thread": list(d.thread), **line_data(d.here)}


def line_data(frame: Frame) -> dict[str, Any]:
    line = frame.line
    return {
        "function": frame.function,
        "file": None if line is None else line.file,
        "line": None if line is None else line.line,
        "ptx_line": frame.ins.ptx_line,
        "ptx": frame.ins.text,
    }


def stop(d: Debugger) -> str:
    """The reason and the place of a stop."""
    assert d.stop is not None
    lanes = d.stop.hit.lanes & d.state.lanes_of(d.stop.hit.warp)
    active = f"{lanes.bit_count()} of {d.state.lanes_of(d.stop.hit.warp).bit_count()} lanes active"
    return f"{d.kernel} stopped: {d.stop.reason}; {active}\n{focus(d)}"


def stop_data(d: Debugger) -> dict[str, Any]:
    assert d.stop is not None
    lanes = d.stop.hit.lanes & d.state.lanes_of(d.stop.hit.warp)
    return {"kernel": d.kernel, "reason": d.stop.reason, "lanes": lanes, **focus_data(d)}


def frames(d: Debugger) -> str:
    """The call stack; the selected frame is marked."""
    rows = []
    for i, frame in enumerate(d.frames()):
        mark = "*" if i == d.frame_number else " "
        rows.append(f"{mark} {i}  {frame.function}  {_place(frame)}")
    return "\n".join(rows)


def frames_data(d: Debugger) -> list[dict[str, Any]]:
    return [line_data(frame) for frame in d.frames()]


def listing(d: Debugger) -> str:
    """The source around the line; * marks lines with code."""
    line = d.here.line
    if line is None or not d.source.sources.get(line.file):
        return instructions(d)
    total = len(d.source.sources[line.file].splitlines())
    coded = set(d.source.lines(line.file))
    rows = []
    for number in range(max(1, line.line - AROUND), min(total, line.line + AROUND) + 1):
        mark = ">" if number == line.line else "*" if number in coded else " "
        rows.append(f"{mark}{number:5}  {d.source.quote(line.file, number)}".rstrip())
    return "\n".join(rows)


def instructions(d: Debugger) -> str:
    """The PTX around the instruction."""
    at = d.here.ins.index
    rows = []
    for ins in d.source.code[max(0, at - AROUND) : at + AROUND + 1]:
        rows.append(f"{'>' if ins.index == at else ' '}{ins.ptx_line:5}  {ins.text}")
    return "\n".join(rows)


def lanes(d: Debugger, values: Sequence[Value | None]) -> str:
    """A value in each lane, eight to a row; a lane that does not run is in brackets."""
    assert d.stop is not None
    same = (d.focus.slot, d.focus.warp) == (d.stop.hit.slot, d.stop.hit.warp)
    active = d.stop.hit.lanes if same else d.state.mask(d.focus.slot, d.focus.warp)
    cells = []
    for i, value in enumerate(values):
        text = "-" if value is None else str(value)
        cells.append(text if active >> i & 1 else f"[{text}]")
    width = max(map(len, cells), default=1)
    first = 32 * d.focus.warp
    rows = [
        f"{first + i:5}: " + "  ".join(c.rjust(width) for c in cells[i : i + 8])
        for i in range(0, len(cells), 8)
    ]
    return "\n".join(rows)


def _at(d: Debugger, place: Instruction | None) -> str:
    return "" if place is None else _place(d.source.frame(place))


def warps(d: Debugger, views: Sequence[WarpView]) -> str:
    """A row for each warp."""
    rows = [
        f"block {v.block} warp {v.warp}  {v.active:08x}  {v.state}  {_at(d, v.place)}"
        for v in views
    ]
    return "\n".join(row.rstrip() for row in rows)


def warp_data(d: Debugger, v: WarpView) -> dict[str, Any]:
    place = {} if v.place is None else line_data(d.source.frame(v.place))
    return {
        "block": list(v.block), "warp": v.warp, "active": v.active, "done": v.done,
        "state": v.state, **place,
    }  # fmt: skip
