"""Finds the first wrong elements of an answer, and the threads that wrote them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.climbing.rung import Runner
from weft.device import arrays as device_arrays
from weft.device.sim.run import elements, settings
from weft.device.sim.tools.touches import ThreadAccess, TouchRecorder
from weft.learn import trial
from weft.learn.exercise import KernelExercise
from weft.measure import op as operations
from weft.measure.dtypes import Array
from weft.measure.op import ArraySpec, Case
from weft.values.learn.mistake import WrongElement

if TYPE_CHECKING:
    from weft.device.sim.run.settings import LaunchRequest

SHOWN = 3
"""Wrong elements that are listed."""
_COARSE = 2.0**-8
"""The relative error above which an element is wrong here: above any rounding of a right answer."""


@dataclass(frozen=True)
class Wrong:
    """The wrong elements of the first case that has any.

    first    the first of them; `count` of `size` elements are wrong
    threads  threads of the largest launch
    writers  the writes to the first one, in order
    """

    case: str
    first: tuple[WrongElement, ...]
    count: int
    size: int
    threads: int
    writers: tuple[ThreadAccess, ...]


@dataclass
class _Session:
    """A session that records the writes to one place, and the size of launches."""

    place: tuple[int, int]
    seen: list[ThreadAccess] = field(default_factory=list)
    threads: int = 0

    def run(self, asked: LaunchRequest) -> None:
        touches = TouchRecorder(*self.place)
        asked.run(touches)
        self.seen += touches.seen
        config = asked.plan.config
        self.threads = max(self.threads, math.prod(config.grid) * math.prod(config.block))


def first_wrong(exercise: KernelExercise, runner: Runner) -> Wrong | None:
    """Run the cases until one gives wrong elements; None if all look right."""
    for case in exercise.op.cases:
        values = trial.arguments(exercise, case)
        given = {s.name: _decoded(values[s.name], s, case) for s in exercise.op.inputs}
        runner(**values)
        for spec, right in _expected(exercise, given):
            got = _decoded(values[spec.name], spec, case)
            wrong = _differs(got, right.reshape(got.shape))
            if np.any(wrong):
                return _described(exercise, runner, case, spec.name, got, right, wrong)
    return None


def _described(
    exercise: KernelExercise,
    runner: Runner,
    case: Case,
    name: str,
    got: Array,
    right: Array,
    wrong: Array,
) -> Wrong:
    indices = [tuple(int(i) for i in index) for index in np.argwhere(wrong)[:SHOWN]]
    shown = tuple(
        WrongElement(elements.indexed(name, i), got[i].item(), right.reshape(got.shape)[i].item())
        for i in indices
    )
    values = trial.arguments(exercise, case)
    memory = device_arrays.view(values[name])
    flat = int(np.ravel_multi_index(indices[0], got.shape)) if got.ndim else 0
    session = _Session((memory.address + flat * memory.itemsize, memory.itemsize))
    with settings.in_this_thread(session):
        runner(**values)
    count = int(np.count_nonzero(wrong))
    return Wrong(str(case), shown, count, got.size, session.threads, tuple(session.seen))


def _expected(
    exercise: KernelExercise, given: Mapping[str, Array]
) -> Iterator[tuple[ArraySpec, Array]]:
    op = exercise.op
    found = operations.call(op.reference, given, [s.name for s in op.inputs])
    results = found if isinstance(found, tuple) else (found,)
    yield from zip(op.outputs, map(np.asarray, results), strict=True)


def _decoded(array: Any, spec: ArraySpec, case: Case) -> Array:
    """A copy as numbers of NumPy: floats in float64, integers as they are."""
    memory = device_arrays.view(array)
    stored = np.frombuffer(ctypes.string_at(memory.address, memory.nbytes), spec.dtype.numpy)
    return np.array(spec.dtype.decode(stored.reshape(spec.shape(case))))


def _differs(got: Array, right: Array) -> Array:
    """Flags of elements whose error is above any rounding."""
    if got.dtype.kind != "f":
        return np.asarray(got != right.astype(got.dtype))
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(right), initial=0.0, where=np.isfinite(right))
        near = np.abs(got - right) <= _COARSE * (np.abs(right) + 0.01 * largest)
    same = (got == right) | (np.isnan(got) & np.isnan(right))
    return np.asarray(~(near | same))
