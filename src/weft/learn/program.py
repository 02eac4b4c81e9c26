"""Grades an exercise that is a whole CUDA program: by what it prints, races and rules.

The sanitizer also orders streams, events and the host: it finds two streams that touch the same
memory, and host code that reads a result too early. A program that prints the right number even
where the kernels of a GPU return at once has computed it elsewhere; one that depends on a library
must print another number without it.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import weft.sanitizer
from weft.device import driver
from weft.device.selection import Selection
from weft.frontends import compute_sanitizer, program
from weft.learn import facts
from weft.learn.exercise import ProgramExercise
from weft.learn.program_rules import idle, overlap, several
from weft.learn.program_rules.rule import broken, fact_of
from weft.measure.profile.session import Recording, recording
from weft.source import scan
from weft.values.findings import DeviceWork, Finding


@dataclass(frozen=True)
class _Run:
    """One run: its exit code, the words that it prints, the first finding, and its GPUs' work."""

    code: int
    printed: list[str]
    finding: Finding | None = None
    devices: Sequence[DeviceWork] = ()


@dataclass(frozen=True)
class _Trial:
    """Runs of one exercise to judge.

    device      the GPU that they use
    drawn       the values of the arguments
    expected    the number that the right program prints
    """

    exercise: ProgramExercise
    device: Selection
    drawn: Mapping[str, int]
    expected: float

    @property
    def arguments(self) -> list[str]:
        """The words of the command line."""
        return [*map(str, self.drawn.values())]

    def is_right(self, run: _Run) -> bool:
        return len(run.printed) == 1 and _is_close(run.printed[0], self.expected)


class Judged(NamedTuple):
    """The stage that a program fails at, what is wrong, the sanitizer's finding, measured facts.

    The stage is "" if the program passes. The facts are those that rules name.
    """

    stage: str = ""
    words: str = ""
    finding: Finding | None = None
    facts: Mapping[str, float] = MappingProxyType({})


def judge(exercise: ProgramExercise, path: Path, device: Selection) -> Judged:
    """Judge a program by what it prints, by the sanitizer and by its rules.

    Arguments and the GPU are drawn anew, so that a program cannot know what to print. On a real GPU
    the sanitizer and the rules are left out.
    """
    drawn = {name: random.randint(*ends) for name, ends in exercise.arguments.items()}
    if exercise.models and not device.real:
        device = Selection(key=random.choice(exercise.models).key)
    if device.real and (there := driver.count()) < exercise.gpus:
        return Judged(
            "right",
            f"This exercise needs {exercise.gpus} GPUs, and there is {there}. Grade it on simulated"
            " ones: --device sim.",
        )
    on = [device.model] if exercise.models else []
    trial = _Trial(exercise, device, drawn, float(exercise.prints(*drawn.values(), *on)))
    run = (_on_gpu if device.real else _sanitized)(trial, path)
    # A finding explains a wrong result, so it comes first.
    if run.finding is not None:
        return Judged("sanitize", str(run.finding), run.finding)
    if run.code != 0:
        return Judged("right", f"The program ends with exit code {run.code}, where 0 is expected.")
    if not trial.is_right(run):
        given = [f"{name} = {value}" for name, value in drawn.items()]
        case = ", ".join([*given, *(model.name for model in on)])
        found = " ".join(run.printed)[:200] or "nothing"
        expected = f"where {trial.expected:g} is expected"
        return Judged("right", f"For {case} the program prints {found}, {expected}.")
    return Judged() if device.real else _ruled(trial, path, run)


def _ruled(trial: _Trial, path: Path, run: _Run) -> Judged:
    """The rule that a right program breaks, and its words; those that need no other run first."""
    exercise, text = trial.exercise, path.read_text(encoding="utf-8")
    if call := uncalled(exercise, text):
        rule = exercise.need(call) if call in exercise.depends_on else exercise.rule(call)
        return Judged(rule, f"The number is right, but nothing calls {call}. The rule: {rule}.")
    counted = [r for r in exercise.measured if fact_of(r) in several.NAMES]
    on_gpus = _broken(trial, counted, several.facts(run.devices))
    if on_gpus.stage:
        return on_gpus
    for name in exercise.depends_on:
        if _prints(trial, path.name, idle.function(text, name)):
            rule, words = exercise.need(name), f"The number stays right without {name}"
            return Judged(rule, f"{words}, which returns at once then. The rule: {rule}.")
    for gpu in range(exercise.gpus):
        if trial.is_right(_run(trial, path, idle=gpu)):
            one = exercise.gpus == 1
            kernels = "the kernels" if one else f"the kernels of GPU {gpu}"
            where = "the host computes it" if one else "something else computes it"
            words = f"The number is right, but {where}: it stays right without {kernels}."
            return Judged(exercise.by, f"{words} The rule: {exercise.by}.")
    others = [r for r in exercise.measured if r not in counted]
    if not others:
        return on_gpus
    last = _broken(trial, others, _recorded(trial, path, others))
    return last._replace(facts={**on_gpus.facts, **last.facts})


def _recorded(trial: _Trial, path: Path, rules: Iterable[str]) -> dict[str, float]:
    """The facts of a recorded run that rules are about."""
    model = trial.device.model
    timeline = any(fact_of(rule) in overlap.NAMES for rule in rules)
    with recording(Recording(model.key, timeline=timeline)) as recorded:
        _run(trial, path)
    known = facts.of_program(recorded.profiles, recorded.seen.values(), path)
    return known | (overlap.facts(path.name, model, recorded) if timeline else {})


def _broken(trial: _Trial, rules: Sequence[str], known: Mapping[str, float]) -> Judged:
    """The first rule that does not hold, and its words."""
    named = {name: known[name] for name in map(fact_of, rules)}
    for rule in rules:
        if found := broken(rule, known, trial.drawn):
            words = f"The number is right, but {found}; this exercise asks for {rule}."
            return Judged(rule, words, facts=named)
    return Judged(facts=named)


def _prints(trial: _Trial, file: str, text: str) -> bool:
    """Return True if another program prints the expected number as well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_text(text, encoding="utf-8")
        return trial.is_right(_run(trial, path))


def uncalled(exercise: ProgramExercise, text: str) -> str:
    """The first function that the program must call and does not; "" for none."""
    code = scan.without_comments(text)
    wanted = (*exercise.calls, *exercise.depends_on)
    return next((c for c in wanted if not re.search(rf"\b{c}\s*\(", code)), "")


def _sanitized(trial: _Trial, path: Path) -> _Run:
    with weft.sanitizer.sanitize(raises=False) as report:
        run = _run(trial, path)
    return replace(run, finding=next(iter(report.findings), None), devices=report.devices)


def _run(trial: _Trial, path: Path, *, idle: int | None = None) -> _Run:
    """Run the program on simulated GPUs; kernels of the idle one return at once."""
    with tempfile.TemporaryFile() as output:
        code = program.run(
            str(path),
            trial.arguments,
            device=trial.device,
            flags=trial.exercise.flags,
            gpus=trial.exercise.gpus,
            idle=idle,
            stdout=output.fileno(),
        )
        output.seek(0)
        return _Run(code, output.read().decode(errors="replace").split())


def _on_gpu(trial: _Trial, path: Path) -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        command = compute_sanitizer.command_of(str(path), folder, trial.exercise.flags)
        command += trial.arguments
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, encoding="utf-8"
        )
    return _Run(done.returncode, done.stdout.split())


def _is_close(word: str, expected: float) -> bool:
    try:
        return math.isclose(float(word), expected, rel_tol=1e-5)
    except ValueError:
        return False
