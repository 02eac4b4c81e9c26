"""Judges a subject on one set of inputs: runs it twice and compares it with the reference."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.errors import CheckFailed
from weft.measure.check import comparison, explain, reference
from weft.measure.check.comparison import Agreement, Difference
from weft.measure.check.harness import Harness, Subject, limit
from weft.measure.check.runner import Stored
from weft.measure.dtypes import Array
from weft.values.check import Verdict

REPEATS = 10
"""Consecutive runs after the random trials of a case, as in a benchmark."""

Draw = Callable[[], Mapping[str, Array]]
"""Returns new inputs at each call."""


def judge(
    harness: Harness, inputs: Mapping[str, Array], trial: str, rng: np.random.Generator
) -> Verdict:
    """Return the verdict for these inputs; raise CheckFailed with all details."""
    first, second = harness.starts(inputs, rng)
    # Different initial contents: a result that depends on them differs between the runs.
    runs = [harness.run(inputs, start, trial) for start in (first, second)]
    verdict = _compared(harness, inputs, runs, trial, rng)
    harness.settled(trial)
    return verdict


def repeat(
    harness: Harness,
    draw: Draw,
    trial: str,
    rng: np.random.Generator,
    runs: int = REPEATS,
    seconds: float = math.inf,
) -> None:
    """Run the subject many times, as a benchmark does: new inputs each time, outputs not reset.

    Only the last run and a random one are judged: a subject that caches results cannot know which.

    seconds   the run that ends after this time is the last one
    """
    watched, started = int(rng.integers(runs)), time.monotonic()
    for number in range(runs + 1):
        inputs = draw()
        result = harness.run(inputs, {}, f"{trial}, run {number} in a row")
        last = number == runs or time.monotonic() - started > seconds
        if last or number == watched:
            _compared(harness, inputs, [result], f"{trial}, after {number} more runs", rng)
        if last:
            break
    harness.settled(trial)


def _compared(
    harness: Harness,
    inputs: Mapping[str, Array],
    runs: Sequence[Mapping[str, Stored]],
    trial: str,
    rng: np.random.Generator,
) -> Verdict:
    subject = harness.subject
    numbers = {p.name: p.dtype.decode(inputs[p.name]) for p in subject.inputs}
    expected, moved = reference.right(harness, numbers, rng, trial)
    _same_number(subject, runs[0], expected, trial)
    worst, blind, same = 0.0, True, True
    for name, e, s in zip(runs[0], expected, moved, strict=True):
        for number, run in enumerate(runs):
            _same_shape(subject, name, run[name].bits, e, trial)
            dtype = harness.type_of(name, run[name])
            most = limit(harness, e, s, dtype)
            outcome = comparison.compare(name, run[name], e, most, dtype)
            if isinstance(outcome, Difference):
                symptoms = explain.gather(harness, inputs, outcome, run[name], e, s, rng)
                error = explain.failure(subject, trial, outcome, symptoms, dtype, rerun=number == 1)
                explain.make_repeatable(error, harness, inputs, outcome, rng)
                raise error
        assert isinstance(outcome, Agreement)
        worst, blind = max(worst, outcome.ratio), blind and outcome.blind
        # Non-determinism is reported, but is not a failure: float atomics are not deterministic.
        same = same and len({run[name].bits.tobytes() for run in runs}) == 1
    return Verdict(trial, worst, blind, same)


def _same_number(s: Subject, got: Mapping[str, Stored], expected: Sequence[Array], at: str) -> None:
    if len(got) != len(expected):
        raise CheckFailed(
            f"{s.name} and its reference give a different number of results",
            where=at,
            got=f"{len(got)} from {s.name}, {len(expected)} from the reference",
        )


def _same_shape(s: Subject, name: str, stored: Array, e: Array, trial: str) -> None:
    if stored.shape != e.shape:
        raise CheckFailed(
            f"{s.name}: '{name}' does not have the reference's shape",
            where=trial,
            got=str(stored.shape),
            allowed=str(e.shape),
        )
