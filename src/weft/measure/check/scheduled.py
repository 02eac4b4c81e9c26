"""Judges a subject under schedules: a right one gives right results in every order of its threads.

See `weft.device.sim.schedules`. The subject has been right in a plain run, so that a wrong
result here is a matter of order: of threads, or of asynchronous copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.device.selection import Selection
from weft.device.sim import schedules
from weft.errors import ArgumentError, CheckFailed, Error
from weft.measure.check import comparison, explain, reference
from weft.measure.check.causes import ORDER
from weft.measure.check.comparison import Difference
from weft.measure.check.diagnosis import Cause
from weft.measure.check.harness import Harness, limit
from weft.measure.dtypes import Array


def chosen(wanted: int | Sequence[str], device: Selection) -> tuple[str, ...]:
    """The names of the schedules that `weft.check(schedules=)` asks for."""
    if isinstance(wanted, str) or not isinstance(wanted, int | list | tuple):
        raise ArgumentError(
            "schedules= takes a number, or a list of names",
            got=repr(wanted),
            allowed='16, or ["last", "random:7"]',
        )
    if isinstance(wanted, int):
        names = [] if wanted == 0 else [str(x) for x in schedules.several(wanted)]
    else:
        names = [str(schedules.parse(str(name))) for name in wanted]
    if names and device.real:
        raise ArgumentError(
            "only the simulated GPU has schedules",
            got=f"schedules={wanted!r} on {device.word}",
            next="leave schedules= out, or check on the simulated GPU",
        )
    return tuple(names)


def judge(
    harness: Harness,
    inputs: Mapping[str, Array],
    trial: str,
    rng: np.random.Generator,
    names: Sequence[str],
) -> None:
    """Compare the results under each schedule with the reference; raise CheckFailed."""
    if not names:
        return
    numbers = {p.name: p.dtype.decode(inputs[p.name]) for p in harness.subject.inputs}
    expected, moved = reference.right(harness, numbers, rng, trial)
    start = harness.starts(inputs, rng)[0]
    for schedule in names:
        label = f"{trial}, schedule {schedule}"
        try:
            run = harness.run(inputs, start, label, schedule)
        except Error as error:  # a deadlock, say, which no other order has
            raise _named(error, schedule) from None
        for name, e, s in zip(run, expected, moved, strict=True):
            dtype = harness.type_of(name, run[name])
            outcome = comparison.compare(name, run[name], e, limit(harness, e, s, dtype), dtype)
            if isinstance(outcome, Difference):
                cause = _diagnosed(harness, inputs, start, schedule) or ORDER
                failed = explain.wrong(
                    harness.subject, label, outcome, cause, dtype, f" under schedule {schedule}"
                )
                raise _named(failed, schedule)


def _named(error: Error, schedule: str) -> Error:
    """The error with its schedule."""
    if isinstance(error, CheckFailed):
        error.schedule = schedule
    error.add_note(
        f"repeat this run with WEFT_SCHEDULE={schedule}, or inside of"
        f' `with weft.schedule("{schedule}"):`'
    )
    return error


def _diagnosed(
    harness: Harness, inputs: Mapping[str, Array], start: Mapping[str, Array], schedule: str
) -> Cause | None:
    """The sanitizer's finding: in the plain order, where it is simplest, else in this one."""
    find = harness.subject.diagnose
    for name in ("", schedule):
        if find is None:
            cause = harness.runner.diagnose({**start, **inputs}, name)
        else:
            with schedules.named(name):
                cause = find(harness.runner.given, inputs)
        if cause is not None:
            return cause
    return None
