"""A subject under guard; a run looks for all that a run must not do.

That is: leave elements unwritten, write outside of its arrays, change its inputs, answer from
memory of an earlier call, finish on another stream, change its answer afterwards.
"""

from __future__ import annotations

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
from weft.measure.check.runner import Runner, RunResult, Stored, SubjectArray
from weft.measure.dtypes import Array, DType

Reference = Callable[[Sequence[Mapping[str, Array]]], Sequence[Sequence[Any]]]
"""For each set of inputs its results; many at once, as each question to a worker takes its time."""
Start = Mapping[str, Array]
"""What outputs hold before a run."""


@dataclass(frozen=True)
class Writer:
    """Who wrote an element last, and how many threads wrote it."""

    text: str
    threads: int


@dataclass(frozen=True)
class Subject:
    """What is judged.

    inputs     arrays that are given; one that is an output, too, starts with its data
    outputs    arrays that are filled; none: the call returns its results
    result     the type that a returned result must have the precision of; None: its own
    terms      how many terms a result sums; None: as many as the reference shows
    block      threads of a block, where known
    grid       threads of the whole grid, where known
    writer     (arrays, output, flat index) -> who wrote that element
    races      (arrays) -> what the sanitizer finds in the same launch
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
    races: Callable[[Mapping[str, Any]], str] | None = None


class Harness:
    """A subject and where it runs."""

    def __init__(self, subject: Subject, runner: Runner) -> None:
        self.subject, self.runner = subject, runner
        self.terms = subject.terms
        self._left: Mapping[str, Stored] = {}

    def starts(self, inputs: Mapping[str, Array], rng: np.random.Generator) -> tuple[Start, Start]:
        """Two different contents of all outputs that do not start with data of their own."""
        fresh = [p for p in self.subject.outputs if p.name not in inputs]
        pairs = {p.name: input_data.poisons(rng, p.shape, p.dtype) for p in fresh}
        return {n: p[0] for n, p in pairs.items()}, {n: p[1] for n, p in pairs.items()}

    def run(self, inputs: Mapping[str, Array], start: Start, trial: str) -> dict[str, Stored]:
        """The outputs of one run, after everything that a run must not do was looked for.

        An output without a start keeps what the run before has left in it.
        """
        try:
            ran = self.runner.run({**start, **inputs}, trial)
        except SystemExit as error:
            raise CheckFailed(
                f"{self.subject.name} ends the program",
                where=trial,
                got=f"SystemExit({error.code!r})",
                next="return instead",
            ) from None
        self._same_as_left(ran.before, trial)
        for name, stored in ran.early.items():
            if stored.bits.tobytes() != ran.late[name].bits.tobytes():
                raise CheckFailed(
                    f"{self.subject.name}: '{name}' was not finished when the call was",
                    where=trial,
                    got="the work was still running on another stream",
                    next="launch on the current stream, or make it wait for the other one",
                )
        self._look_around(inputs, ran, trial)
        self._left = ran.late
        return dict(ran.late)

    def settled(self, trial: str) -> None:
        """Holds what the outputs are now against what they were when the call before ended."""
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
        """The type whose precision a result must have: the declared one, never a coarser."""
        wanted = self.subject.result
        if wanted is None or not stored.dtype.floating or not wanted.floating:
            return stored.dtype
        return max(stored.dtype, wanted, key=lambda t: -t.roundoff)

    def _look_around(self, inputs: Mapping[str, Array], ran: RunResult, trial: str) -> None:
        for name, now in ran.guards.items():
            damaged = np.flatnonzero(now != self.runner.guards[name])
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
        """`at` counts through both guards."""
        places = {p.name: p for p in (*self.subject.inputs, *self.subject.outputs)}
        place = places[name]
        nbytes = int(np.prod(place.shape, dtype=np.int64)) * place.dtype.numpy.itemsize
        whole = Allocation(0, nbytes, True, name, place.dtype.numpy, place.shape)
        offset = at - GUARD if at < GUARD else at - GUARD + nbytes
        return CheckFailed(
            f"{self.subject.name} writes outside of '{name}'",
            where=trial,
            got=f"{elements.element(whole, offset)} was overwritten",
            next="run it on the simulator: it names the line and the thread",
        )


def limit(harness: Harness, e: Array, s: Array, dtype: DType, low: DType | None = None) -> Array:
    """The largest error of every element; `low` as if sums were kept in a lower precision."""
    if not dtype.floating:
        return np.zeros(e.shape)
    wide = dtypes.find("f64" if dtype.name == "f64" else "f32")
    accumulate = low or harness.subject.accumulate or wide
    return tolerance.allowed(e.astype(np.float64), s, dtype, accumulate, harness.terms or 1)
