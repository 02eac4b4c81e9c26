"""Calls the reference and validates its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import ArgumentError, Error
from weft.measure.check import tolerance
from weft.measure.check.harness import Harness
from weft.measure.dtypes import Array, DType


def answers(harness: Harness, many: Sequence[Mapping[str, Array]], trial: str) -> list[list[Array]]:
    """The reference's results for each set of inputs; raises ArgumentError for invalid ones."""
    subject = harness.subject
    try:
        with np.errstate(all="ignore"):
            results_per_set = [
                [np.asarray(r) for r in results] for results in subject.reference(many)
            ]
    except Error:
        raise
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise ArgumentError(
            f"the reference of {subject.name} raises an error",
            where=trial,
            got=f"{type(error).__name__}: {error}",
            next="call it yourself with float64 arrays, and integers as they are",
        ) from error
    return [_useful(harness, results, trial) for results in results_per_set]


def _useful(harness: Harness, results: list[Array], trial: str) -> list[Array]:
    for number, answer in enumerate(results):
        if answer.dtype.kind not in "biuf":
            what = f"dtype {answer.dtype}"
            raise _useless(harness, number, trial, what, "numbers: float, int, bool")
    return _as_declared(harness, results, trial) if harness.subject.outputs else results


def right(
    harness: Harness, numbers: Mapping[str, Array], rng: np.random.Generator, trial: str
) -> tuple[list[Array], list[Array]]:
    """The expected results and their sensitivity `s` to changes of the inputs."""
    movable = [p.name for p in harness.subject.inputs if p.movable]
    # One call with all sets: in a worker every call costs a round trip.
    probed = tolerance.probes(numbers, rng, movable) if _is_inexact(harness) else []
    expected, *near = answers(harness, [numbers, *(p.inputs for p in probed)], trial)
    if harness.terms is None:
        harness.terms = tolerance.terms(
            lambda many: answers(harness, many, trial), numbers, expected, rng, movable
        )
    return expected, tolerance.sensitivity(expected, probed, near)


def _is_inexact(harness: Harness) -> bool:
    """True if a result may be floating; the result type of a callable is unknown before it runs."""
    outputs = harness.subject.outputs
    return not outputs or any(p.dtype.floating for p in outputs)


def _as_declared(harness: Harness, results: list[Array], trial: str) -> list[Array]:
    places = harness.subject.outputs
    if len(results) != len(places):
        raise ArgumentError(
            f"the reference of {harness.subject.name} gives {len(results)} results",
            where=trial,
            got=str(len(results)),
            allowed=f"{len(places)}: {', '.join(p.name for p in places)}",
            next="return a tuple with one array for each output",
        )
    for number, (answer, place) in enumerate(zip(results, places, strict=True)):
        if answer.shape != place.shape:
            raise _useless(harness, number, trial, f"shape {answer.shape}", f"shape {place.shape}")
        if not place.dtype.floating and not _whole(answer, place.dtype):
            what = f"dtype {answer.dtype} with values that {place.dtype.name} does not have"
            raise _useless(harness, number, trial, what, "integers; larger ones wrap around")
    return [
        a.astype(np.float64) if p.dtype.floating else a
        for a, p in zip(results, places, strict=True)
    ]


def _whole(answer: Array, dtype: DType) -> bool:
    """True for integers, which wrap around, and for floats that are integers of the type."""
    if answer.dtype.kind != "f":
        return True
    low, high = dtype.range if dtype.integer else (0, 1)
    with np.errstate(invalid="ignore"):
        return bool(np.all((answer == np.floor(answer)) & (answer >= low) & (answer <= high)))


def _useless(harness: Harness, number: int, trial: str, got: Any, allowed: str) -> ArgumentError:
    outputs = harness.subject.outputs
    name = outputs[number].name if number < len(outputs) else f"result {number}"
    return ArgumentError(
        f"the reference of {harness.subject.name} gives no right '{name}'",
        where=trial,
        got=str(got),
        allowed=allowed,
    )
