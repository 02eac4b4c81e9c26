"""Grades an exercise that is a whole CUDA program: by what it prints, races and counters.

The sanitizer also orders streams, events and the host: it finds two streams that touch the same
memory, and host code that reads a result too early. A program that prints the right number even
where no kernel runs has computed it on the host; one that depends on a library must print another
number without it.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import weft.sanitizer
from weft.climbing import counters
from weft.device.selection import Selection
from weft.frontends import compute_sanitizer, program
from weft.learn import facts, idle, overlap
from weft.learn.exercise import ProgramExercise
from weft.measure.profile.session import Recording, recording
from weft.source import scan
from weft.values.findings import Finding


@dataclass(frozen=True)
class _Trial:
    """One run to judge.

    device      the GPU that it runs on
    arguments   the words of its command line
    expected    the number that the right program prints
    """

    exercise: ProgramExercise
    device: Selection
    arguments: list[str]
    expected: float

    def is_right(self, printed: list[str]) -> bool:
        return len(printed) == 1 and _is_close(printed[0], self.expected)


class Judged(NamedTuple):
    """The stage that a program fails at, what is wrong, and the sanitizer's finding.

    The stage is "" if the program passes.
    """

    stage: str = ""
    words: str = ""
    finding: Finding | None = None


def judge(exercise: ProgramExercise, path: Path, device: Selection) -> Judged:
    """Judge a program by what it prints, by the sanitizer and by its rules.

    Arguments and the GPU are drawn anew, so that a program cannot know what to print. On a real GPU
    the sanitizer and the rules are left out.
    """
    drawn = {name: random.randint(*ends) for name, ends in exercise.arguments.items()}
    if exercise.models and not device.real:
        device = Selection(key=random.choice(exercise.models).key)
    on = [device.model] if exercise.models else []
    words = [*map(str, drawn.values())]
    trial = _Trial(exercise, device, words, float(exercise.prints(*drawn.values(), *on)))
    code, printed, finding = (_on_gpu if device.real else _simulated)(trial, path)
    # A finding explains a wrong result, so it comes first.
    if finding is not None:
        return Judged("sanitize", str(finding), finding)
    if code != 0:
        return Judged("right", f"The program ends with exit code {code}, where 0 is expected.")
    if not trial.is_right(printed):
        given = [f"{name} = {value}" for name, value in drawn.items()]
        case = ", ".join([*given, *(model.name for model in on)])
        found = " ".join(printed)[:200] or "nothing"
        expected = f"where {trial.expected:g} is expected"
        return Judged("right", f"For {case} the program prints {found}, {expected}.")
    return Judged() if device.real else _ruled(trial, path)


def _ruled(trial: _Trial, path: Path) -> Judged:
    """The rule that a right program breaks, and its words."""
    exercise = trial.exercise
    text = path.read_text(encoding="utf-8")
    if call := uncalled(exercise, text):
        rule = exercise.need(call) if call in exercise.depends_on else exercise.rule(call)
        return Judged(rule, f"The number is right, but nothing calls {call}. The rule: {rule}.")
    for name in exercise.depends_on:
        if _prints(trial, path.name, idle.function(text, name)):
            rule, words = exercise.need(name), f"The number stays right without {name}"
            return Judged(rule, f"{words}, which returns at once then. The rule: {rule}.")
    _, printed = _run(trial, path, idle=True)
    if trial.is_right(printed):
        words = "The number is right, but the host computes it: it stays right without the kernels."
        return Judged(exercise.by, f"{words} The rule: {exercise.by}.")
    return _measured(trial, path)


def _prints(trial: _Trial, file: str, text: str) -> bool:
    """Return True if another program prints the expected number as well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_text(text, encoding="utf-8")
        _, printed = _run(trial, path)
    return trial.is_right(printed)


def _measured(trial: _Trial, path: Path) -> Judged:
    """The first rule on facts of a run that does not hold, and its words."""
    rules, model = trial.exercise.measured, trial.device.model
    if not rules:
        return Judged()
    timeline = any(counters.fact_of(rule) in overlap.NAMES for rule in rules)
    with recording(Recording(model.key, timeline=timeline)) as recorded:
        _run(trial, path)
    known = facts.of_program(recorded.profiles, recorded.seen.values(), path)
    if timeline:
        known |= overlap.facts(path.name, model, recorded)
    for rule in rules:
        name = counters.fact_of(rule)
        if not counters.holds(path.name, rule, known):
            found = f"{name} is {facts.shown(known[name])}"
            return Judged(rule, f"The number is right, but {found}; this exercise asks for {rule}.")
    return Judged()


def uncalled(exercise: ProgramExercise, text: str) -> str:
    """The first function that the program must call and does not; "" for none."""
    code = scan.without_comments(text)
    wanted = (*exercise.calls, *exercise.depends_on)
    return next((c for c in wanted if not re.search(rf"\b{c}\s*\(", code)), "")


def _simulated(trial: _Trial, path: Path) -> tuple[int, list[str], Finding | None]:
    """(exit code, words that it prints, first finding of the sanitizer)."""
    with weft.sanitizer.sanitize(raises=False) as report:
        code, printed = _run(trial, path)
    return code, printed, next(iter(report.findings), None)


def _run(trial: _Trial, path: Path, *, idle: bool = False) -> tuple[int, list[str]]:
    """(exit code, words that it prints); `idle` leaves out the kernels."""
    with tempfile.TemporaryFile() as output:
        code = program.run(
            str(path),
            trial.arguments,
            device=trial.device,
            flags=trial.exercise.flags,
            idle=idle,
            stdout=output.fileno(),
        )
        output.seek(0)
        return code, output.read().decode(errors="replace").split()


def _on_gpu(trial: _Trial, path: Path) -> tuple[int, list[str], Finding | None]:
    with tempfile.TemporaryDirectory() as folder:
        command = compute_sanitizer.command_of(str(path), folder, trial.exercise.flags)
        command += trial.arguments
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, encoding="utf-8"
        )
    return done.returncode, done.stdout.split(), None


def _is_close(word: str, expected: float) -> bool:
    try:
        return math.isclose(float(word), expected, rel_tol=1e-5)
    except ValueError:
        return False
