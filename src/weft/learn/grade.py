"""Grades an exercise on facts: it compiles, is right, has no races, and its counters hold.

A grade that fails says in one paragraph what is wrong, with the line and the measured fact. It
never shows the solution.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import weft.sanitizer
from weft.climbing import counters
from weft.climbing.climb import profiled
from weft.climbing.rung import Runner
from weft.device.models import GpuModel
from weft.device.selection import select
from weft.device.sim.run.draft import drafts
from weft.errors import CheckFailed, CompileError, CompileWarning, Error
from weft.learn import facts, judge, program, share, trial
from weft.learn.exercise import Exercise, JudgedExercise, KernelExercise, ProgramExercise
from weft.measure import Profile
from weft.measure.check import user_file
from weft.measure.check.check import check
from weft.values.learn import Grade
from weft.values.profile import Line

_NAN = (
    "fminf and fmaxf return the number, of NaN and a number. A comparison with NaN is false: "
    "a < b ? a : b is b where one of them is NaN."
)


def grade(exercise: Exercise, path: Path, device: str = "sim") -> Grade:
    """Grade a file as an answer to an exercise.

    On a real GPU its results alone are judged: the sanitizer and the counters are the simulator's.
    """
    chosen, stage = select(device), "compile"
    try:
        if isinstance(exercise, ProgramExercise):
            failed, words = program.judge(exercise, path, real=chosen.real)
            return Grade(exercise.title, failed, words or "right; all work is in order")
        if isinstance(exercise, JudgedExercise):
            failed, words = judge.judge(exercise, path)
            return Grade(exercise.title, failed, words or "right on all cases")
        assert isinstance(exercise, KernelExercise)
        # Arrays are small: compile time dominates.
        with drafts(), warnings.catch_warnings():
            # What is not finished yet declares variables that nothing uses.
            warnings.filterwarnings("ignore", "(?s).*never referenced", CompileWarning)
            runner = trial.runner(exercise, path, chosen)
            stage = "right"
            if chosen.real:
                check(exercise.op, runner, device=device, arrays="torch")
                return Grade(exercise.title, "", f"right on {chosen.word}")
            check(exercise.op, runner, device=device, arrays=exercise.arrays)
            stage, words = _sanitized(exercise, runner)
            if stage:
                return Grade(exercise.title, stage, words)
            ruled = _ruled(exercise, path, runner, chosen.model)
            return _judged(exercise, runner, ruled) if exercise.judge and ruled.passed else ruled
    except CompileError as error:
        return Grade(exercise.title, "compile", str(error))
    except CheckFailed as error:
        return Grade(exercise.title, stage, f"{error}{_of_nan(error, path)}")
    except Exception as error:  # a learner's code may raise anything
        words = str(error) if isinstance(error, Error) else user_file.words(path, error)
        return Grade(exercise.title, stage, words)


def _of_nan(error: CheckFailed, path: Path) -> str:
    """A remark on fminf and fmaxf, where a result lacks a NaN and the file calls one of them."""
    called = re.search(r"\bf(min|max)f?\s*\(", path.read_text(encoding="utf-8"))
    return f"\n{_NAN}" if called and error.allowed.startswith("nan") else ""


def _sanitized(exercise: KernelExercise, runner: Runner) -> tuple[str, str]:
    """Run the first case under the sanitizer; return the stage that fails, and the message."""
    with weft.sanitizer.sanitize(raises=False) as report:
        runner(**trial.arguments(exercise))
    return ("sanitize", str(report.findings[0])) if report.findings else ("", "")


def _ruled(exercise: KernelExercise, path: Path, runner: Runner, model: GpuModel) -> Grade:
    """Check the rules: that kernels compute the results, then each fact in order.

    Code that watches or counts takes long to make: it is made for the first fact that needs it.
    """
    profiles, results, known = list[Profile](), 0, dict[str, float]()
    if exercise.by:
        library = exercise.through
        shared = share.watch_library(exercise, path) if library else share.watch(exercise, runner)
        if shared.host:
            words = f"The results are right, but {shared.host}. The rule: {exercise.by}."
            return Grade(exercise.title, exercise.by, words)
        known |= shared.facts
    if not exercise.rules:
        return Grade(exercise.title, "", "right, and free of races and memory errors")
    for rule in exercise.rules:
        name = counters.fact_of(rule)
        if name not in known and name in facts.SHARES:
            known |= share.watch(exercise, runner).facts
        elif name not in known:
            profiles, results = profiled(exercise.op, runner, model)
            known |= facts.counted(profiles, results, path)
        if not counters.holds(path.name, rule, known):
            words = f"{name} is {_number(known[name])}; this exercise asks for {rule}."
            return Grade(exercise.title, rule, words + _where(name, profiles, results))
    told = ", ".join(f"{n} {_number(known[n])}" for n in map(counters.fact_of, exercise.rules))
    return Grade(exercise.title, "", f"right, free of races; {told}")


def _judged(exercise: KernelExercise, runner: Runner, ruled: Grade) -> Grade:
    """Let the chapter's own function judge kernels that keep the rules."""
    failed, words = judge.function(exercise.solution.parent, exercise.name)(runner)
    return Grade(exercise.title, failed, words if failed else f"{ruled.words}; {words}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _where(name: str, profiles: Sequence[Profile], results: int) -> str:
    """The line that contributes most to a counter, in the unit of the counter."""
    lines = [line for p in profiles for line in p.lines]
    worst = max(lines, key=lambda line: _share(name, line, results), default=None)
    value = 0.0 if worst is None else _share(name, worst, results)
    if worst is None or not value:
        return ""
    return f" Line {worst.number} has {_number(value)} {name}: {worst.quote.strip()}"


def _share(name: str, line: Line, results: int) -> float:
    """The counter of one line; 0 for a counter that lines do not have."""
    if name in counters.FACTS:
        return counters.FACTS[name].value(line.accesses, results)
    if name == "branch divergence":
        return line.diverged / max(1, line.branches)
    return float(line.executions) if name == "instructions" else 0.0
