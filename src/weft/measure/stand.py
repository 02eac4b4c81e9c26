"""A subject and its arrays under guard; a run looks for all that a run must not do.

That is: leave elements unwritten, write outside of its arrays, change its inputs, answer from
memory of an earlier call, finish on another stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.device.sim import elements
from weft.device.sim.launch import Allocation
from weft.errors import CheckFailed
from weft.measure import buffers, data, dtypes, tolerance
from weft.measure.buffers import Guarded, Library
from weft.measure.dtypes import Array, DType

Reference = Callable[[Mapping[str, Array]], Sequence[Array]]


@dataclass(frozen=True)
class Place:
    """An array of a subject."""

    name: str
    dtype: DType
    shape: tuple[int, ...]


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
    call       with the arrays by name; returns None, or the results
    terms      how many terms a result sums; None: as many as the reference shows
    block      threads of a block, where known
    writer     (arrays, output, flat index) -> who wrote that element
    races      (arrays) -> what the sanitizer finds in the same launch
    """

    name: str
    inputs: Sequence[Place]
    outputs: Sequence[Place]
    call: Callable[[Mapping[str, Any]], Any]
    reference: Reference
    terms: int | None = None
    accumulate: DType | None = None
    block: int | None = None
    writer: Callable[[Mapping[str, Any], str, int], Writer] | None = None
    races: Callable[[Mapping[str, Any]], str] | None = None


class Stand:
    """A subject's arrays under guard; they stay where they are from trial to trial."""

    def __init__(self, subject: Subject, library: Library) -> None:
        self.subject, self.library = subject, library
        places = {p.name: p for p in (*subject.inputs, *subject.outputs)}
        self.arrays = {n: Guarded(library, p.dtype, p.shape) for n, p in places.items()}
        self.given = {name: g.array for name, g in self.arrays.items()}
        self.terms = subject.terms

    def run(self, inputs: Mapping[str, Array], which: int, trial: str) -> dict[str, Array]:
        """The outputs of one run, after everything that a run must not do was looked for."""
        fresh = [p for p in self.subject.outputs if p.name not in inputs]
        for place in fresh:
            self.arrays[place.name].write(data.poison(place.shape, place.dtype, which))
        for name, stored in inputs.items():
            self.arrays[name].write(stored)
        self.library.wait()
        with np.errstate(all="ignore"):  # special values are meant to overflow
            returned = self.subject.call(self.given)
        early = self._results(returned)
        self.library.wait()
        late = self._results(returned)
        for name, stored in early.items():
            if stored.tobytes() != late[name].tobytes():
                raise CheckFailed(
                    f"{self.subject.name}: '{name}' was not finished when the call was",
                    where=trial,
                    got="the work was still running on another stream",
                    next="launch on the current stream, or make it wait for the other one",
                )
        self._look_around(inputs, trial)
        return late

    def _results(self, returned: Any) -> dict[str, Array]:
        if self.subject.outputs:
            return {p.name: self.arrays[p.name].read() for p in self.subject.outputs}
        if returned is None:
            raise CheckFailed(
                f"{self.subject.name} returned nothing, and no output is named",
                next="say which argument is the output: out=y",
            )
        items = returned if isinstance(returned, tuple | list) else (returned,)
        names = ("result", *(f"result {i}" for i in range(1, len(items))))
        return {n: buffers.bits(item) for n, item in zip(names, items, strict=True)}

    def _look_around(self, inputs: Mapping[str, Array], trial: str) -> None:
        changing = {p.name for p in self.subject.outputs}
        for name, guarded in self.arrays.items():
            at = guarded.damage()
            if at is not None:
                whole = Allocation(
                    0, guarded.nbytes, True, name, guarded.dtype.numpy, guarded.shape
                )
                raise CheckFailed(
                    f"{self.subject.name} writes outside of '{name}'",
                    where=trial,
                    got=f"{elements.element(whole, at)} was overwritten",
                    next="run it on the simulator: it names the line and the thread",
                )
            if (
                name in inputs
                and name not in changing
                and _hash(inputs[name]) != _hash(guarded.read())
            ):
                raise CheckFailed(
                    f"{self.subject.name} changes its input '{name}'",
                    where=trial,
                    got="other bytes than were given",
                    next="write to the output only, or name it in out=",
                )


def _hash(a: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(a).tobytes()).digest()


def limit(stand: Stand, e: Array, s: Array, dtype: DType, low: DType | None = None) -> Array:
    """The largest error of every element; `low` as if sums were kept in a lower precision."""
    if not dtype.floating:
        return np.zeros(e.shape)
    wide = dtypes.find("f64" if dtype.name == "f64" else "f32")
    accumulate = low or stand.subject.accumulate or wide
    return tolerance.allowed(e.astype(np.float64), s, dtype, accumulate, stand.terms or 1)
