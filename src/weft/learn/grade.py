"""Grades an exercise on facts: it compiles, is right, has no races, and its counters hold.

A grade that fails says in one paragraph what is wrong, with the line and the measured fact. It
never shows the solution.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import weft.sanitizer
from weft.climbing import counters
from weft.climbing.climb import profiled
from weft.climbing.rung import Runner
from weft.device.models import GpuModel
from weft.device.selection import select
from weft.device.sim.run.draft import drafts
from weft.errors import CheckFailed, CompileError, CompileWarning, Error
from weft.learn import facts, program, share, trial
from weft.learn import judge as own_judge
from weft.learn.exercise import Exercise, JudgedExercise, KernelExercise, ProgramExercise
from weft.measure import Profile
from weft.measure.check import user_file
from weft.measure.check.check import check
from weft.values.findings import Finding
from weft.values.learn.course import Grade
from weft.values.profile import Line

_NAN = (
    "fminf and fmaxf return the number, of NaN and a number. A comparison with NaN is false: "
    "a < b ? a : b is b where one of them is NaN."
)


@dataclass(frozen=True)
class Judgement:
    """A grade with the facts that it was made from.

    error      what the file raised, or how its results differ
    findings   the findings of the sanitizer
    worst      the line that contributes most to the counter of a rule that does not hold
    """

    grade: Grade
    error: Exception | None = None
    findings: tuple[Finding, ...] = ()
    worst: Line | None = None


def grade(exercise: Exercise, path: Path, device: str = "sim") -> Grade:
    """Grade a file as an answer to an exercise.

    On a real GPU its results alone are judged: the sanitizer and the counters are the simulator's.
    """
    return judge(exercise, path, device).grade


def judge(exercise: Exercise, path: Path, device: str = "sim") -> Judgement:
    """Grade a file, and keep what the grade was made from."""
    chosen, stage, title = select(device), "compile", exercise.title
    try:
        if isinstance(exercise, ProgramExercise):
            failed, words, finding, known = program.judge(exercise, path, chosen)
            found = () if finding is None else (finding,)
            words = words or "right; all work is in order"
            return Judgement(Grade(title, failed, words, dict(known)), findings=found)
        if isinstance(exercise, JudgedExercise):
            failed, words = own_judge.judge(exercise, path)
            return Judgement(Grade(title, failed, words or "right on all cases"))
        assert isinstance(exercise, KernelExercise)
        # Arrays are small: compile time dominates.
        with drafts(), warnings.catch_warnings():
            # What is not finished yet declares variables that nothing uses.
            warnings.filterwarnings("ignore", "(?s).*never referenced", CompileWarning)
            runner = trial.runner(exercise, path, chosen)
            stage = "right"
            if chosen.real:
                check(exercise.op, runner, device=device, arrays="torch")
                return Judgement(Grade(title, "", f"right on {chosen.word}"))
            check(exercise.op, runner, device=device, arrays=exercise.arrays)
            if findings := sanitized(exercise, runner):
                return Judgement(Grade(title, "sanitize", str(findings[0])), findings=findings)
            ruled = _ruled(exercise, path, runner, chosen.model)
            last = exercise.judge and ruled.grade.passed
            return _judged(exercise, runner, ruled.grade) if last else ruled
    except CompileError as error:
        return Judgement(Grade(title, "compile", str(error)), error)
    except CheckFailed as error:
        return Judgement(Grade(title, stage, f"{error}{_of_nan(error, path)}"), error)
    except Exception as error:  # a learner's code may raise anything
        words = str(error) if isinstance(error, Error) else user_file.words(path, error)
        return Judgement(Grade(title, stage, words), error)


def _of_nan(error: CheckFailed, path: Path) -> str:
    """A remark on fminf and fmaxf, where a result lacks a NaN and the file calls one of them."""
    called = re.search(r"\bf(min|max)f?\s*\(", path.read_text(encoding="utf-8"))
    return f"\n{_NAN}" if called and error.allowed.startswith("nan") else ""


def sanitized(exercise: KernelExercise, runner: Runner) -> tuple[Finding, ...]:
    """Run the first case under the sanitizer; return its findings."""
    with weft.sanitizer.sanitize(raises=False) as report:
        runner(**trial.arguments(exercise))
    return tuple(report.findings)


def _ruled(exercise: KernelExercise, path: Path, runner: Runner, model: GpuModel) -> Judgement:
    """Check the rules: that kernels compute the results, then each fact in order.

    Code that watches or counts takes long to make: it is made for the first fact that needs it.
    """
    profiles, results, known = list[Profile](), 0, dict[str, float]()
    if exercise.by:
        library = exercise.through
        shared = share.watch_library(exercise, path) if library else share.watch(exercise, runner)
        if shared.host:
            words = f"The results are right, but {shared.host}. The rule: {exercise.by}."
            return Judgement(Grade(exercise.title, exercise.by, words))
        known |= shared.facts
    if not exercise.rules:
        words = "right, and free of races and memory errors"
        return Judgement(Grade(exercise.title, "", words))
    for rule in exercise.rules:
        name = counters.fact_of(rule)
        if name not in known and name in facts.SHARES:
            known |= share.watch(exercise, runner).facts
        elif name not in known:
            profiles, results = profiled(exercise.op, runner, model)
            known |= facts.counted(profiles, results, path)
        if not counters.holds(path.name, rule, known):
            words = f"{name} is {facts.shown(known[name])}; this exercise asks for {rule}."
            worst = _worst(name, profiles, results)
            words += _where(name, worst, results)
            return Judgement(
                Grade(exercise.title, rule, words, _named(exercise, known)), worst=worst
            )
    facts_of = _named(exercise, known)
    told = ", ".join(f"{name} {facts.shown(value)}" for name, value in facts_of.items())
    return Judgement(Grade(exercise.title, "", f"right, free of races; {told}", facts_of))


def _judged(exercise: KernelExercise, runner: Runner, ruled: Grade) -> Judgement:
    """Let the chapter's own function judge kernels that keep the rules."""
    failed, words = own_judge.function(exercise.solution.parent, exercise.name)(runner)
    told = words if failed else f"{ruled.words}; {words}"
    return Judgement(Grade(exercise.title, failed, told, ruled.facts))


def _named(exercise: KernelExercise, known: Mapping[str, float]) -> dict[str, float]:
    """The facts that the rules name, as far as they are known."""
    names = map(counters.fact_of, exercise.rules)
    return {name: known[name] for name in names if name in known}


def _worst(name: str, profiles: Sequence[Profile], results: int) -> Line | None:
    """The line that contributes most to a counter; None for a counter that lines do not have."""
    lines = [line for p in profiles for line in p.lines]
    worst = max(lines, key=lambda line: _share(name, line, results), default=None)
    return worst if worst is not None and _share(name, worst, results) else None


def _where(name: str, worst: Line | None, results: int) -> str:
    """The words for a line, in the unit of the counter."""
    if worst is None:
        return ""
    value = facts.shown(_share(name, worst, results))
    return f" Line {worst.number} has {value} {name}: {worst.quote.strip()}"


def _share(name: str, line: Line, results: int) -> float:
    """The counter of one line; 0 for a counter that lines do not have."""
    if name in counters.FACTS:
        return counters.FACTS[name].value(line.accesses, results)
    if name == "branch divergence":
        return line.diverged / max(1, line.branches)
    return float(line.executions) if name == "instructions" else 0.0
