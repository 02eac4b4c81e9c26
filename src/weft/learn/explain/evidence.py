"""Collects the evidence about a failed answer: grade, findings, counters, wrong elements."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from weft.device.selection import select
from weft.device.sim.run.draft import drafts
from weft.errors import CheckFailed, CompileWarning
from weft.learn import trial
from weft.learn.exercise import Exercise, KernelExercise
from weft.learn.explain import division
from weft.learn.explain.division import Division
from weft.learn.explain.elements import Wrong, first_wrong
from weft.learn.grade import Judgement, judge, sanitized
from weft.learn.program_rules import rule


@dataclass(frozen=True)
class Evidence:
    """The facts about a failed answer.

    judged      its grade, the error that it raised, findings and the line of a counter
    wrong       its first wrong elements, where results are wrong
    division    a division of integers in its source
    fact        the fact of a rule that does not hold, and its value; else ""
    """

    exercise: Exercise
    judged: Judgement
    wrong: Wrong | None = None
    division: Division | None = None
    fact: str = ""
    value: float = 0.0

    @property
    def stage(self) -> str:
        """The stage that the answer fails at."""
        return self.judged.grade.stage

    @property
    def cause(self) -> str:
        """The likely cause that the check has named, if it has."""
        error = self.judged.error
        return error.cause if isinstance(error, CheckFailed) else ""


def gather(exercise: Exercise, path: Path) -> Evidence:
    """Grade a file on the simulated GPU, and look closer at what fails."""
    judged = judge(exercise, path)
    stage = judged.grade.stage
    if isinstance(exercise, KernelExercise) and stage == "right":
        compared = isinstance(judged.error, CheckFailed)
        return _compared(exercise, path, judged) if compared else Evidence(exercise, judged)
    fact = rule.fact_of(stage)
    if fact in judged.grade.facts:
        return Evidence(exercise, judged, fact=fact, value=judged.grade.facts[fact])
    return Evidence(exercise, judged)


def _compared(exercise: KernelExercise, path: Path, judged: Judgement) -> Evidence:
    """The evidence about wrong results: findings, wrong elements, suspicious lines."""
    with drafts(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*never referenced", CompileWarning)
        runner = trial.runner(exercise, path, select("sim"))
        findings = sanitized(exercise, runner)
        wrong = first_wrong(exercise, runner)
    floats = tuple(s.name for s in exercise.op.outputs if s.dtype.floating)
    source = path.read_text(encoding="utf-8")
    divided = division.find(source, floats) if path.suffix == ".cu" else None
    whole = Judgement(judged.grade, judged.error, findings, judged.worst)
    return Evidence(exercise, whole, wrong, divided)
