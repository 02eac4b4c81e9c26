"""Runs a subject in guarded arrays and detects forbidden side effects.

A subject must write all elements of its outputs, write nothing outside of its arrays, leave its
inputs unchanged, compute its result in every call, finish on the current stream, and leave the
outputs unchanged afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.device.base import Allocation
from weft.device.sim.run import elements
from weft.errors import CheckFailed
from weft.measure import dtypes
from weft.measure.check import input_data, tolerance
from weft.measure.check.buffers import GUARD
from weft.measure.check.diagnosis import Cause
from weft.measure.check.runner import Runner, RunResult, Stored, SubjectArray
from weft.measure.dtypes import Array, DType

Reference = Callable[[Sequence[Mapping[str, Array]]], Sequence[Sequence[Any]]]
"""Results for each set of inputs. One call takes many sets, since a request to a worker is slow."""
Diagnose = Callable[[Mapping[str, Any], Mapping[str, Array]], Cause | None]
"""(arrays, inputs) -> the sanitizer's finding."""
Start = Mapping[str, Array]
"""Contents of the outputs before a run."""


@dataclass(frozen=True)
class Writer:
    """The last writer of an element, and the number of threads that wrote it."""

    text: str
    threads: int


@dataclass(frozen=True)
class Subject:
    """The code under check.

    inputs     arrays that it reads; one that is also an output starts with its data
    outputs    arrays that it fills; empty if the call returns its results
    result     the type whose precision a returned result must have; None for its own type
    terms      the number of terms that a result sums; None to measure it on the reference
    block      threads per block, if known
    grid       threads of the whole grid, if known
    writer     (arrays, output, flat index) -> the writer of that element
    diagnose   (arrays, inputs) -> the sanitizer's finding in the same launch; by default the
               runner calls the subject under the sanitizer
    """

    name: str
    inputs: Sequence[SubjectArray]
    outputs: Sequence[SubjectArray]
    reference: Reference
    result: DType | None = None
    terms: int | None = None
    accumulate: DType | None = None
    block: int | None = None
    grid: Callable[[Mapping[str, Any]], int | None] | None = None
    writer: Callable[[Mapping[str, Any], str, int], Writer] | None = None
    diagnose: Diagnose | None = None

    @property
    def elements(self) -> int:
        """The number of elements of all arrays."""
        return sum(math.prod(p.shape) for p in (*self.inputs, *self.outputs))


class Harness:
    """A subject together with the runner that calls it."""

    def __init__(self, subject: Subject, runner: Runner) -> None:
        self.subject, self.runner = subject, runner
        self.terms = subject.terms
        self._left: Mapping[str, Stored] = {}

    def starts(self, inputs: Mapping[str, Array], rng: np.random.Generator) -> tuple[Start, Start]:
        """Two different initial contents for the outputs that do not start with input data."""
        fresh = [p for p in self.subject.outputs if p.name not in inputs]
        pairs = {p.name: input_data.poisons(rng, p.shape, p.dtype) for p in fresh}
        return {n: p[0] for n, p in pairs.items()}, {n: p[1] for n, p in pairs.items()}

    def run(
        self, inputs: Mapping[str, Array], start: Start, trial: str, schedule: str = ""
    ) -> dict[str, Stored]:
        """Run the subject once, check for side effects, and return the outputs.

        An output without a start keeps the contents that the previous run left.
        """
        try:
            ran = self.runner.run({**start, **inputs}, trial, schedule)
        except SystemExit as error:
            raise CheckFailed(
                f"{self.subject.name} ends the program",
                where=trial,
                got=f"SystemExit({error.code!r})",
                next="return instead",
            ) from None
        # Detects threads or streams that still wrote after the previous call returned.
        self._same_as_left(ran.before, trial)
        # Unfinished work on another stream shows as a difference between the two reads.
        for name, stored in ran.early.items():
            if stored.bits.tobytes() != ran.late[name].bits.tobytes():
                raise CheckFailed(
                    f"{self.subject.name}: '{name}' was not complete when the call returned",
                    where=trial,
                    got="the work was still running on another stream",
                    next="launch on the current stream, or make it wait for the other one",
                )
        self._look_around(inputs, ran, trial)
        self._left = ran.late
        return dict(ran.late)

    def settled(self, trial: str) -> None:
        """Raise if an output changed after the previous call ended."""
        if self.subject.outputs:
            self._same_as_left(self.runner.outputs(), trial)

    def _same_as_left(self, now: Mapping[str, Array], trial: str) -> None:
        for name, bits in now.items() if self._left else ():
            if bits.tobytes() != self._left[name].bits.tobytes():
                raise CheckFailed(
                    f"{self.subject.name}: '{name}' was changed after the call had ended",
                    where=trial,
                    got="other bytes than at the end of the call before",
                    next="finish all work, also that of other threads, before the call returns",
                )

    def type_of(self, name: str, stored: Stored) -> DType:
        """The type whose precision a result must have: never coarser than the declared one."""
        wanted = self.subject.result
        if wanted is None or not stored.dtype.floating or not wanted.floating:
            return stored.dtype
        # The finer of the two: storing a result in a coarser type than declared is an error.
        return max(stored.dtype, wanted, key=lambda t: -t.roundoff)

    def _look_around(self, inputs: Mapping[str, Array], ran: RunResult, trial: str) -> None:
        for name, now in ran.guards.items():
            damaged = np.flatnonzero(now != self.runner.guards[name])
            # The first damaged byte is enough to name the array and the element.
            if len(damaged):
                raise self._outside(name, int(damaged[0]), trial)
        for name, now in ran.inputs.items():
            if name in inputs and now.tobytes() != np.ascontiguousarray(inputs[name]).tobytes():
                raise CheckFailed(
                    f"{self.subject.name} changes its input '{name}'",
                    where=trial,
                    got="other bytes than were given",
                    next="write to the output only, or name it in out=",
                )

    def _outside(self, name: str, at: int, trial: str) -> CheckFailed:
        """The error for byte `at`, counted through both guards."""
        places = {p.name: p for p in (*self.subject.inputs, *self.subject.outputs)}
        place = places[name]
        nbytes = int(np.prod(place.shape, dtype=np.int64)) * place.dtype.numpy.itemsize
        whole = Allocation(0, nbytes, True, name, place.dtype.numpy, place.shape)
        # The second guard follows the array itself.
        offset = at - GUARD if at < GUARD else at - GUARD + nbytes
        return CheckFailed(
            f"{self.subject.name} writes outside of '{name}'",
            where=trial,
            got=f"{elements.element(whole, offset)} was overwritten",
            next="run it on the simulator: it names the line and the thread",
        )


def limit(harness: Harness, e: Array, s: Array, dtype: DType, low: DType | None = None) -> Array:
    """The tolerance of every element; `low` overrides the precision of sums."""
    if not dtype.floating:
        return np.zeros(e.shape)
    wide = dtypes.find("f64" if dtype.name == "f64" else "f32")
    accumulate = low or harness.subject.accumulate or wide
    return tolerance.allowed(e.astype(np.float64), s, dtype, accumulate, harness.terms or 1)
