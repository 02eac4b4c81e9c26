"""Implements `weft.check`; see docs/check.md.

weft.check(softmax[rows, 256], x, y, n, out=y, reference=lambda x: ...)   # a launch
weft.check(my_function, x, reference=lambda x: ...)                       # a callable
weft.check(op, solution)                                                  # all cases of an Op
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.device.selection import select
from weft.errors import ArgumentError, CheckFailed, expect
from weft.kernels import Configured
from weft.measure.check import input_data, limits, scheduled, subjects
from weft.measure.check.judge import judge, repeat
from weft.measure.check.subjects import Fillings, Ranges, Trial, Trials
from weft.measure.op import Op
from weft.values.check import CheckReport, Verdict


class Report(CheckReport):
    """The result of a check that passed. A check that fails raises `CheckFailed`.

    name       what was checked
    device     the library of the arrays, and the device
    seed       repeats the check
    trials     a `Verdict` for each set of inputs
    schedules  the schedules under which the results are right, too

    >>> ones = np.ones(3, np.float32)
    >>> report = weft.check(lambda a: 2 * a, ones, reference=lambda a: 2 * a)
    >>> print(report.trials[0].trial)
    the inputs given
    """

    def _repr_html_(self) -> str:
        """The notebook's view."""
        from weft.report import cells

        return cells.check(str(self), self.trials)


def check(
    subject: Op | Configured | Callable[..., Any],
    *args: Any,
    out: Any = None,
    reference: Callable[..., Any] | None = None,
    reduce: int | None = None,
    accumulate: str | None = None,
    specials: Sequence[str] | None = None,
    ranges: Ranges | None = None,
    result: str | None = None,
    seed: int | None = None,
    device: str = "sim",
    arrays: str = "",
    schedules: int | Sequence[str] = 0,
    progress: Callable[[str], None] = lambda trial: None,
    **options: Any,
) -> Report:
    """Check a launch, a callable or a solution of an `Op` against a float64 reference.

    subject     `k[grid, block]`, a callable, or an `Op`
    args        the arguments of the launch or callable, or the solution of the `Op`
    out         the arguments that are written: the arrays themselves, or their names
    reference   returns the correct result for float64 inputs
    reduce      the number of terms that a result sums; by default weft finds it by changing inputs
    accumulate  the type that sums may be rounded to, e.g. "f16"; by default "f32"
    specials    the special inputs to try, e.g. ["zeros"]; by default all of them
    ranges      integer arrays to fill with random numbers: name -> (least, most), or None for all
                values of the type; others keep their data, because they may be indices
    result      the type that a returned result is rounded to, where it is coarser than all inputs
    seed        repeats an earlier check; WEFT_SEED does the same
    device      for an `Op`: "sim" or "gpu". With "sim:MODEL" every launch must also fit the limits
                of that model.
    arrays      "numpy" or "torch": the arrays that solutions of an `Op` are given
    schedules   the number of schedules to try as well, on the simulated GPU: first, last, random:1
                and so on, or their names; a schedule decides in which order threads run, and when
                asynchronous copies complete
    progress    called with the name of each trial
    options     passed to the subject: constants of a Triton kernel, num_warps

    Inputs are random numbers and special values. Each trial runs twice, with different initial
    contents of the outputs. A wrong result raises `CheckFailed`.

    >>> report = weft.check(module.scale[1, 32], x, 2.0, 4, out=x, reference=lambda x: 2 * x)
    >>> print(report.deterministic, report.worst < 1)
    True True
    """
    place = select(device)
    names = scheduled.chosen(schedules, place)
    chosen = chosen_seed(seed)
    solution = args[0] if isinstance(subject, Op) and args else None
    rng = generator(chosen, getattr(solution, "__name__", ""))
    fillings = _fillings(specials)
    if isinstance(subject, Op):
        name, trials = subjects.solution_trials(
            subject, args, options, place, arrays, fillings, rng
        )
    else:
        spec = subjects.CallSpec(out, reference, reduce, accumulate, result, ranges or {})
        name, trials = subjects.call_trials(subject, args, options, spec, fillings, rng)
    with limits.enforced(place):
        return judged(name, trials, chosen, rng, progress, names)


def judged(
    name: str,
    trials: Trials,
    seed: int,
    rng: np.random.Generator,
    progress: Callable[[str], None],
    schedules: Sequence[str] = (),
    finish: Callable[[Sequence[Trial]], None] = lambda done: None,
) -> Report:
    """Run all trials and return the report; raise CheckFailed at the first failure.

    schedules  the names of the schedules under which a trial of each case runs, too
    finish     called after the trials, before the outputs of all of them are compared again
    """
    verdicts, done = [], []
    try:
        for trial in trials:
            progress(trial.label)
            verdict = _judged(trial, rng, schedules)
            if verdict is not None:
                verdicts.append(verdict)
                done.append(trial)
        finish(done)
        for harness in {id(t.harness): t.harness for t in done}.values():
            harness.settled("at the end")
    except CheckFailed as error:
        error.seed = seed
        error.add_note(f"repeat it with seed={seed}, or WEFT_SEED={seed}")
        raise
    # A check that an output of zeros passes proves nothing; random inputs must not be such a check.
    sighted = [v for v in verdicts if "random" in v.trial and not v.blind]
    if any("random" in v.trial for v in verdicts) and not sighted:
        raise CheckFailed(
            f"{name}: an output of zeros would pass every trial",
            got="results smaller than the error that is allowed",
            next="check it on inputs whose results are not all zero",
        )
    tried = tuple(schedules)
    return Report(name, done[0].harness.runner.name, seed, tuple(verdicts), tried)


def _judged(trial: Trial, rng: np.random.Generator, schedules: Sequence[str]) -> Verdict | None:
    """The verdict of one trial; None if its sizes are drawn and the operation refuses them."""
    try:
        verdict = judge(trial.harness, trial.draw(), trial.label, rng)
        if trial.repeated:
            repeat(trial.harness, trial.draw, trial.label, rng)
            scheduled.judge(trial.harness, trial.draw(), trial.label, rng, schedules)
    except ArgumentError:  # of the reference or the data: a wrong solution is a CheckFailed
        if trial.drawn:
            return None
        raise
    except CheckFailed as error:
        if trial.drawn:
            error.add_note("its sizes are not those of a case; weft.Op(..., vary={}) has no others")
        raise
    return verdict


def chosen_seed(seed: int | None) -> int:
    """The seed passed by the caller, else WEFT_SEED, else a new one."""
    expect("a seed", seed, int, type(None), allowed="a whole number, 0 and above, or None")
    if seed is not None:
        if seed < 0:
            raise ArgumentError("a seed must not be negative", got=str(seed), allowed="0 and above")
        return seed
    text = os.environ.get("WEFT_SEED", "")
    return int(text) if text.isdecimal() else secrets.randbits(31)


def generator(seed: int, solution: str) -> np.random.Generator:
    """The random generator of one check.

    Each solution of an operation gets different data, so that none can reuse another's results.
    """
    return np.random.default_rng([seed, *solution.encode()])


def _fillings(wanted: Sequence[str] | None) -> Fillings:
    if wanted is None:
        return input_data.SPECIALS
    for name in wanted:
        if name not in input_data.SPECIALS:
            raise ArgumentError(
                "no such special filling", got=repr(name), allowed=", ".join(input_data.SPECIALS)
            )
    return {name: input_data.SPECIALS[name] for name in wanted}
