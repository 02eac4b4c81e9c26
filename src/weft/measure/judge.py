"""One subject on one set of inputs: run, held against the reference, run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import CheckFailed
from weft.measure import compare, dtypes, explain, tolerance
from weft.measure.compare import Agreement, Difference
from weft.measure.dtypes import Array, DType
from weft.measure.stand import Stand, Subject, limit

REPEATS = 10
"""Runs between the first judgement and the last, as a timing would make them."""


@dataclass(frozen=True)
class Verdict:
    """A subject that was right on some inputs."""

    trial: str
    worst: float
    blind: bool
    deterministic: bool


def judge(
    stand: Stand, inputs: Mapping[str, Array], trial: str, rng: np.random.Generator
) -> Verdict:
    """Right on these inputs, twice the same, or CheckFailed with all that is known."""
    subject = stand.subject
    first = stand.run(inputs, 0, trial)
    second = stand.run(inputs, 1, trial)
    numbers = {p.name: p.dtype.decode(inputs[p.name]) for p in subject.inputs}
    with np.errstate(all="ignore"):
        expected = [np.asarray(e) for e in subject.reference(numbers)]
        moved = tolerance.sensitivity(subject.reference, numbers, expected, rng)
        if stand.terms is None:
            stand.terms = tolerance.terms(subject.reference, numbers, expected, rng)
    _same_number(subject, first, expected, trial)
    worst, blind, same = 0.0, True, True
    for (name, stored), e, s in zip(first.items(), expected, moved, strict=True):
        dtype = _type_of(stand, name, stored)
        _same_shape(subject, name, stored, e, trial)
        most = limit(stand, e, s, dtype)
        again = second[name]
        for number, result in enumerate((stored, again)):
            found = compare.compare(name, result, e, most, dtype)
            if isinstance(found, Difference):
                facts = explain.gather(
                    stand, inputs, found, (stored, again)[number], again, e, s, dtype
                )
                raise explain.failure(subject, trial, found, facts, dtype, rerun=number == 1)
        assert isinstance(found, Agreement)
        worst, blind = max(worst, found.ratio), blind and found.blind
        same = same and stored.tobytes() == again.tobytes()
    return Verdict(trial, worst, blind, same)


def repeat(stand: Stand, inputs: Mapping[str, Array], trial: str, rng: np.random.Generator) -> None:
    """Many runs in a row, as a timing makes them, and one more judgement on new inputs."""
    with np.errstate(all="ignore"):
        for _ in range(REPEATS):
            stand.subject.call(stand.given)
    stand.library.wait()
    judge(stand, inputs, f"{trial}, after {REPEATS} more runs", rng)


def _type_of(stand: Stand, name: str, stored: Array) -> DType:
    if name in stand.arrays:
        return stand.arrays[name].dtype
    return dtypes.find("bf16" if stored.dtype == np.uint16 else stored.dtype.name)


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
