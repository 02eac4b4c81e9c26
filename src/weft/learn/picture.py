"""Pictures of which thread reads and writes what, from the recorded accesses of a run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.device import arrays as device_arrays
from weft.device.selection import select
from weft.device.sim.run import settings
from weft.device.sim.run.draft import drafts
from weft.device.sim.tools.touches import EVERYWHERE, ThreadAccess, TouchRecorder
from weft.learn import trial
from weft.learn.exercise import KernelExercise

if TYPE_CHECKING:
    from weft.device.sim.run.settings import LaunchRequest

REMEMBERED = 4096
"""Accesses of one launch that a picture shows at most, for each host thread."""
SHOWN = 20
"""Threads that the text of a picture lists."""


@dataclass(frozen=True)
class Strip:
    """An array of the picture."""

    name: str
    shape: tuple[int, ...]
    output: bool


@dataclass(frozen=True)
class Box:
    """A thread, or a program of Triton, and what it touches: array -> elements, in order."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int] | None
    reads: Mapping[str, tuple[int, ...]]
    writes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Picture:
    """Which thread touches which elements.

    unit    what a box is: "thread" or "program"
    grid, block   the shape of the launch
    """

    unit: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arrays: tuple[Strip, ...]
    boxes: tuple[Box, ...]

    def __str__(self) -> str:
        """A line for each thread."""
        rows = [self.row(box) for box in self.boxes[:SHOWN]]
        wide = [max(len(row[k]) for row in rows) for k in range(2)]
        lines = [f"{name:{wide[0]}}  {reads:{wide[1]}}  {writes}" for name, reads, writes in rows]
        rest = len(self.boxes) - SHOWN
        return "\n".join([*lines, *([f"… and {rest} more"] if rest > 0 else [])])

    def row(self, box: Box) -> tuple[str, str, str]:
        """The words for a thread, for what it reads and for what it writes."""
        shapes = {a.name: a.shape for a in self.arrays}
        reads, writes = _list(box.reads, shapes), _list(box.writes, shapes)
        return self.name(box), f"reads {reads}", f"writes {writes}"

    def to_dict(self) -> dict[str, Any]:
        """The picture as a dict, for JSON."""
        return asdict(self)

    def name(self, box: Box) -> str:
        """The words for a box: "block 1, thread 3", "thread (0, 2)", "program 1"."""
        block = _place(box.block, self.grid)
        if self.unit == "program":
            return f"program {block}"
        assert box.thread is not None
        thread = f"thread {_place(box.thread, self.block)}"
        return thread if math.prod(self.grid) == 1 else f"block {block}, {thread}"


@dataclass
class _Recorder:
    """A session that records the accesses of every launch."""

    seen: list[ThreadAccess] = field(default_factory=list)
    grid: tuple[int, ...] = (1, 1, 1)
    block: tuple[int, ...] = (1, 1, 1)

    def run(self, asked: LaunchRequest) -> None:
        touches = TouchRecorder(*EVERYWHERE, reads=True, remembered=REMEMBERED)
        asked.run(touches)
        self.seen += touches.seen
        self.grid, self.block = asked.plan.config.grid, asked.plan.config.block


def picture(exercise: KernelExercise, path: Path, unit: str = "thread") -> Picture:
    """Runs a file on the first case of an exercise and records what it touches."""
    op, recorder = exercise.op, _Recorder()
    with drafts():
        run = trial.runner(exercise, path, select("sim"))
        values = trial.arguments(exercise)
        with settings.in_this_thread(recorder):
            run(**values)
    inputs = {s.name for s in op.inputs}
    views = {s.name: device_arrays.view(values[s.name]) for s in (*op.inputs, *op.outputs)}
    strips = tuple(Strip(n, tuple(values[n].shape), n not in inputs) for n in views)

    def elements(touch: ThreadAccess) -> Iterable[tuple[str, int]]:
        for name, view in views.items():
            first = (touch.address - view.address) // view.itemsize
            if first >= 0 and touch.address + touch.nbytes <= view.address + view.nbytes:
                for index in range(first, first + max(1, touch.nbytes // view.itemsize)):
                    yield name, index

    touched: dict[tuple[object, object, bool], dict[str, dict[int, None]]] = {}
    for touch in recorder.seen:
        thread = touch.thread if unit == "thread" else None
        for write in (False, True):
            if touch.does in (("write", "atomic", "reduction") if write else ("read",)):
                place = touched.setdefault((touch.block, thread, write), {})
                for name, index in elements(touch):
                    place.setdefault(name, {})[index] = None
    boxes = []
    for block in _cells(recorder.grid):
        for thread in _cells(recorder.block) if unit == "thread" else (None,):
            reads, writes = (
                {
                    n: tuple(sorted(e[n]))
                    for e in (touched.get((block, thread, w), {}),)
                    for n in views
                    if n in e
                }
                for w in (False, True)
            )
            boxes.append(Box(block, thread, reads, writes))
    return Picture(unit, recorder.grid, recorder.block, strips, tuple(boxes))


def _cells(size: Sequence[int]) -> list[tuple[int, int, int]]:
    """All places of a grid, x first."""
    x, y, z = (*size, 1, 1)[:3]
    return [(i, j, k) for k, j, i in itertools.product(range(z), range(y), range(x))]


def _place(place: tuple[int, int, int], size: Sequence[int]) -> str:
    """The number of a place in a line, or its coordinates in a plane."""
    if math.prod((*size, 1)[1:]) == 1:
        return str(place[0])
    return f"({', '.join(map(str, place[: 2 if len(size) < 3 or size[2] == 1 else 3]))})"


def _list(touched: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """ "x[0..3] b[1]"; rows of a matrix are written one by one."""
    words = [f"{n}[{span}]" for n, many in touched.items() for span in _spans(many, shapes[n])]
    return " ".join(words[:6]) + (" …" if len(words) > 6 else "") or "nothing"


def _spans(indices: Sequence[int], shape: tuple[int, ...]) -> list[str]:
    """Runs of neighbours along the last dimension, in the notation of an index."""
    width = shape[-1] if shape else 1
    out = []
    for _, run in itertools.groupby(enumerate(indices), lambda p: (p[1] - p[0], p[1] // width)):
        group = [index for _, index in run]
        column = f"{group[0] % width}" + (f"..{group[-1] % width}" if len(group) > 1 else "")
        row = f"{group[0] // width}, " if len(shape) == 2 else ""
        out.append(row + column)
    return out
