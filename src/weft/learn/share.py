"""Watches a run of an exercise: which threads do the work, and whether the host has done it.

A host that computes results is found in one of three ways: it changes an array of the results, an
input, or an array of its own that a kernel only copies. Zeros may be written by anyone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.climbing.rung import load
from weft.device import arrays as device_arrays
from weft.device.sim.run import settings
from weft.device.sim.tools.writers import Writers
from weft.learn import trial
from weft.learn.exercise import KernelExercise

if TYPE_CHECKING:
    from weft.climbing.rung import Runner
    from weft.device.sim.run.settings import LaunchRequest

Place = tuple[int, int]
"""An address and a number of bytes."""


@dataclass(frozen=True)
class Share:
    """The shares of threads in the work of a run.

    facts   counts of launches, threads and blocks, by the names that rules use
    host    what the host does in place of a kernel, in words; "" for nothing
    """

    facts: Mapping[str, float]
    host: str


@dataclass
class _Memory:
    """The arrays of an exercise and those that kernels are given, and who has changed them.

    named    the exercise's arrays by name, each a place: its address and its bytes
    seen     what a kernel, or the exercise, has left at a place
    host     the first change by the host that is not its business
    """

    named: Mapping[str, Place]
    outputs: tuple[str, ...]
    seen: dict[Place, bytes] = field(default_factory=dict)
    host: str = ""

    def __post_init__(self) -> None:
        self.keep(())

    def keep(self, places: Iterable[Place]) -> None:
        """Remembers what is there now, as the exercise or a kernel left it."""
        for place in {*places, *self.named.values()}:
            self.seen[place] = ctypes.string_at(*place)

    def look(self, places: Mapping[Place, str]) -> None:
        """Compares what is there, also at more places, with what was kept."""
        for name, place in self.named.items():
            held = np.frombuffer(ctypes.string_at(*place), np.uint8)
            changed = held != np.frombuffer(self.seen[place], np.uint8)
            if np.any(changed & (held != 0) if name in self.outputs else changed):
                self.host = self.host or f"the host writes {name}, which kernels are to be given"
        copies = [self.seen[p] for n, p in self.named.items() if n not in self.outputs]
        for place, name in places.items():
            held_bytes = ctypes.string_at(*place)
            own = any(at <= place[0] < at + size for at, size in self.named.values())
            if not own and any(held_bytes) and held_bytes not in (*copies, self.seen.get(place)):
                self.host = self.host or f"the host fills '{name}', and not with zeros"


class _Launches:
    """A session that watches launches."""

    def __init__(self, memory: _Memory) -> None:
        self.memory, self.count = memory, 0
        self.writers = Writers([memory.named[name] for name in memory.outputs])

    def run(self, asked: LaunchRequest) -> None:
        places = {(a.address, a.nbytes): a.name for a in asked.memory if not a.around}
        self.memory.look(places)
        asked.run(self.writers)
        self.count += 1
        self.memory.keep(places)


def watch(exercise: KernelExercise, runner: Runner) -> Share:
    """Runs the first case and watches its launches."""
    values = trial.arguments(exercise)
    memory = _memory(exercise, values)
    session = _Launches(memory)
    with settings.in_this_thread(session):
        runner(**values)
    memory.look({})
    writers, readers = session.writers.writers(), session.writers.readers()
    facts = {
        "launches": session.count,
        "writing launches": session.writers.writing_launches(),
        "writing threads": len(writers),
        "writing blocks": len({block for block, _ in writers}),
        "reading threads": len(readers),
        "reading blocks": len({block for block, _ in readers}),
    }
    host = memory.host if session.count else "no kernel is launched: the host does the work"
    # Without host code only kernels can have written.
    return Share({n: float(v) for n, v in facts.items()}, host if exercise.by else "")


def watch_library(exercise: KernelExercise, path: Path) -> Share:
    """Runs the first case and watches the calls of the function that must compute the results.

    The function of the solution takes the place of the learner's, which may have been changed.
    """
    values = trial.arguments(exercise)
    memory = _memory(exercise, values)
    given, mine = load(exercise.solution), load(path)
    compute, calls = getattr(given, exercise.through), 0

    def called(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        memory.look({})
        compute(*arguments)
        memory.keep(())

    setattr(mine, exercise.through, called)
    mine.run(**values)
    memory.look({})
    host = memory.host if calls else f"{exercise.through} is not called"
    return Share({}, host)


def _memory(exercise: KernelExercise, values: Mapping[str, Any]) -> _Memory:
    specs = (*exercise.op.inputs, *exercise.op.outputs)
    views = {s.name: device_arrays.view(values[s.name]) for s in specs}
    named = {name: (view.address, view.nbytes) for name, view in views.items()}
    return _Memory(named, tuple(s.name for s in exercise.op.outputs))
