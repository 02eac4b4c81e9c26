"""One subject on one set of inputs: run under guard, held against the reference, run again.

What a run must not do is looked for each time: leave elements unwritten, write outside of its
arrays, change its inputs, answer from memory of an earlier call, finish on another stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import CheckFailed
from weft.measure import buffers, causes, compare, data, dtypes, tolerance
from weft.measure.buffers import Guarded, Library
from weft.measure.compare import Agreement, Difference
from weft.measure.dtypes import Array, DType

REPEATS = 10
"""Runs between the first judgement and the last, as a timing would make them."""

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
    terms      how many terms a result sums
    block      threads of a block, where known
    writer     (arrays, output, flat index) -> who wrote that element
    races      (arrays) -> what the sanitizer finds in the same launch
    """

    name: str
    inputs: Sequence[Place]
    outputs: Sequence[Place]
    call: Callable[[Mapping[str, Any]], Any]
    reference: Reference
    terms: int
    accumulate: DType | None = None
    block: int | None = None
    writer: Callable[[Mapping[str, Any], str, int], Writer] | None = None
    races: Callable[[Mapping[str, Any]], str] | None = None


@dataclass(frozen=True)
class Verdict:
    """A subject that was right on some inputs."""

    trial: str
    worst: float
    blind: bool
    deterministic: bool


class Stand:
    """A subject's arrays under guard; they stay where they are from trial to trial."""

    def __init__(self, subject: Subject, library: Library) -> None:
        self.subject, self.library = subject, library
        places = {p.name: p for p in (*subject.inputs, *subject.outputs)}
        self.arrays = {n: Guarded(library, p.dtype, p.shape) for n, p in places.items()}
        self.given = {name: g.array for name, g in self.arrays.items()}

    def run(self, inputs: Mapping[str, Array], which: int, trial: str) -> dict[str, Array]:
        """The outputs of one run, after everything that a run must not do was looked for."""
        fresh = [p for p in self.subject.outputs if p.name not in inputs]
        for place in fresh:
            self.arrays[place.name].write(data.poison(place.shape, place.dtype, which))
        for name, stored in inputs.items():
            self.arrays[name].write(stored)
        self.library.wait()
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
                side = f"{-at} before" if at < 0 else f"{at - guarded.nbytes} past the end of"
                raise CheckFailed(
                    f"{self.subject.name} writes outside of '{name}'",
                    where=trial,
                    got=f"the byte {side} its {guarded.nbytes} bytes was overwritten",
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


def judge(stand: Stand, inputs: Mapping[str, Array], trial: str, rng: Any) -> Verdict:
    """Right on these inputs, twice the same, or CheckFailed with all that is known."""
    subject = stand.subject
    first = stand.run(inputs, 0, trial)
    second = stand.run(inputs, 1, trial)
    numbers = {p.name: p.dtype.decode(inputs[p.name]) for p in subject.inputs}
    with np.errstate(all="ignore"):
        expected = [np.asarray(e) for e in subject.reference(numbers)]
        moved = tolerance.sensitivity(subject.reference, numbers, expected, rng)
    _same_number(subject, first, expected, trial)
    worst, blind, same = 0.0, True, True
    for (name, stored), e, s in zip(first.items(), expected, moved, strict=True):
        dtype = _type_of(stand, name, stored)
        _same_shape(subject, name, stored, e, trial)
        limit = _limit(subject, e, s, dtype)
        again = second[name]
        for number, result in enumerate((stored, again)):
            found = compare.compare(name, result, e, limit, dtype)
            if isinstance(found, Difference):
                facts = _facts(stand, inputs, found, (stored, again)[number], again, e, s, dtype)
                raise failure(subject, trial, found, facts, dtype, rerun=number == 1)
        assert isinstance(found, Agreement)
        worst, blind = max(worst, found.ratio), blind and found.blind
        same = same and stored.tobytes() == again.tobytes()
    return Verdict(trial, worst, blind, same)


def repeat(stand: Stand, inputs: Mapping[str, Array], trial: str, rng: Any) -> None:
    """Many runs in a row, as a timing makes them, and one more judgement on new inputs."""
    for _ in range(REPEATS):
        stand.subject.call(stand.given)
    stand.library.wait()
    judge(stand, inputs, f"{trial}, after {REPEATS} more runs", rng)


# ---- inside ----------------------------------------------------------------------------------
def _hash(a: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(a).tobytes()).digest()


def _type_of(stand: Stand, name: str, stored: Array) -> DType:
    if name in stand.arrays:
        return stand.arrays[name].dtype
    return dtypes.find("bf16" if stored.dtype == np.uint16 else stored.dtype.name)


def _limit(subject: Subject, e: Array, s: Array, dtype: DType, low: DType | None = None) -> Array:
    if not dtype.floating:
        return np.zeros(e.shape)
    wide = dtypes.find("f64" if dtype.name == "f64" else "f32")
    accumulate = low or subject.accumulate or wide
    return tolerance.allowed(e.astype(np.float64), s, dtype, accumulate, subject.terms)


def _same_number(s: Subject, got: Mapping[str, Array], expected: Sequence[Array], at: str) -> None:
    if len(got) != len(expected):
        raise CheckFailed(
            f"{s.name} and its reference give a different number of results",
            where=at,
            got=f"{len(got)} from {s.name}, {len(expected)} from the reference",
        )


def _same_shape(s: Subject, name: str, stored: Array, e: Array, trial: str) -> None:
    if stored.shape != e.shape:
        raise CheckFailed(
            f"{s.name}: '{name}' has another shape than the reference",
            where=trial,
            got=str(stored.shape),
            allowed=str(e.shape),
        )


def _facts(
    stand: Stand,
    inputs: Mapping[str, Array],
    found: Difference,
    result: Array,
    other: Array,
    e: Array,
    s: Array,
    dtype: DType,
) -> causes.Facts:
    subject, name = stand.subject, found.output
    unwritten = np.zeros(e.shape, bool)
    if name in stand.arrays and name not in inputs:
        runs = [stand.run(inputs, which, "")[name] for which in (0, 1)]
        empty = [data.poison(e.shape, dtype, which) for which in (0, 1)]
        unwritten = _equal_bits(runs[0], empty[0]) & _equal_bits(runs[1], empty[1])

    def coarser(low: DType) -> bool:
        limit = _limit(subject, e, s, dtype, low)
        return isinstance(compare.compare(name, result, e, limit, dtype), Agreement)

    flat = int(np.ravel_multi_index(found.index, e.shape)) if e.ndim else 0
    writer = subject.writer(stand.given, name, flat) if subject.writer else Writer("", 0)
    return causes.Facts(
        found,
        dtype.decode(result),
        e,
        _limit(subject, e, s, dtype),
        dtype,
        unwritten,
        ~_equal_bits(result, other),
        subject.block,
        coarser,
        subject.races(stand.given) if subject.races else "",
        writer.threads,
        writer.text,
    )


def _equal_bits(a: Array, b: Array) -> Array:
    if a.dtype == bool:
        return np.asarray(a == b)
    word = np.dtype(f"uint{8 * a.itemsize}")
    return np.asarray(
        np.ascontiguousarray(a).view(word).reshape(a.shape)
        == np.ascontiguousarray(b).view(word).reshape(a.shape)
    )


def failure(
    subject: Subject,
    trial: str,
    found: Difference,
    facts: causes.Facts,
    dtype: DType,
    *,
    rerun: bool,
) -> CheckFailed:
    """All that is known about a wrong output."""
    writer = facts.writer
    cause = causes.likely(facts)
    again = " in the second of two runs on the same inputs" if rerun else ""
    unit = f", {found.ulps:.3g} ulp" if dtype.floating else ""
    got = f"{found.got:.9g} at {found.output}[{', '.join(map(str, found.index))}]{unit}"
    part = f"{found.count} of {found.wrong.size} elements"
    picture = f"\n  where:\n{_indent(found.map())}" if found.wrong.size > 1 else ""
    error = CheckFailed(
        f"{subject.name}: {part} of '{found.output}' are wrong{again}",
        where=trial,
        got=got + (f"\n  written by: {writer}" if writer else "") + picture,
        allowed=f"{found.expected:.9g} ± {found.allowed:.3g}"
        if dtype.floating
        else f"{found.expected:g}",
        next=f"{cause.name}: {cause.evidence}" if cause else "",
    )
    error.index, error.value, error.expected = found.index, found.got, found.expected
    error.ulps, error.trial, error.writer = found.ulps, trial, writer
    error.wrong_count, error.map = found.count, found.map()
    error.cause, error.evidence = (cause.name, cause.evidence) if cause else ("", "")
    return error


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
