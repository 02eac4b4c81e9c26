"""Grades an exercise that is a whole CUDA program: by the sanitizer, and by what it prints.

The sanitizer also orders streams, events and the host: it finds two streams that touch the same
memory, and host code that reads a result too early. A program that prints the right number even
where the kernels of a GPU return at once has computed it elsewhere.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import weft.sanitizer
from weft.frontends import compute_sanitizer, program
from weft.learn import several
from weft.learn.exercise import ProgramExercise
from weft.source import scan
from weft.values.findings import DeviceWork


@dataclass(frozen=True)
class _Run:
    """One run: its exit code, the words that it prints, the first finding, and its GPUs' work."""

    code: int
    printed: list[str]
    finding: str = ""
    devices: Sequence[DeviceWork] = ()


def judge(exercise: ProgramExercise, path: Path, *, real: bool = False) -> tuple[str, str]:
    """(stage that the program fails at, what is wrong); the stage is "" if it passes.

    Arguments are drawn anew, so that a program cannot know what to print. On a real GPU the
    sanitizer and the rules are left out.
    """
    drawn = {name: random.randint(*ends) for name, ends in exercise.arguments.items()}
    arguments = [*map(str, drawn.values())]
    run = _on_gpu(path, arguments) if real else _sanitized(exercise, path, arguments)
    # A finding explains a wrong result, so it comes first.
    if run.finding:
        return "sanitize", run.finding
    if run.code != 0:
        return "right", f"The program ends with exit code {run.code}, where 0 is expected."
    expected = float(exercise.prints(**drawn))
    if not _is_right(run, expected):
        case = ", ".join(f"{name} = {value}" for name, value in drawn.items())
        words = " ".join(run.printed)[:200] or "nothing"
        return "right", f"For {case} the program prints {words}, where {expected:g} is expected."
    return ("", "") if real else _ruled(exercise, path, drawn, run, expected)


def _ruled(
    exercise: ProgramExercise, path: Path, drawn: Mapping[str, int], run: _Run, expected: float
) -> tuple[str, str]:
    """The rule that a right program breaks, and its words."""
    text = path.read_text(encoding="utf-8")
    if call := uncalled(exercise, text):
        rule = exercise.rule(call)
        return rule, f"The number is right, but nothing calls {call}. The rule: {rule}."
    for rule in exercise.limits:
        if words := several.broken(rule, run.devices, drawn):
            return rule, f"The number is right, but {words}. The rule: {rule}."
    for gpu in range(exercise.gpus):
        if _is_right(_run(exercise, path, [*map(str, drawn.values())], idle=gpu), expected):
            kernels = "the kernels" if exercise.gpus == 1 else f"the kernels of GPU {gpu}"
            where = "the host computes it" if exercise.gpus == 1 else "something else computes it"
            words = f"The number is right, but {where}: it stays right without {kernels}."
            return exercise.by, f"{words} The rule: {exercise.by}."
    return "", ""


def uncalled(exercise: ProgramExercise, text: str) -> str:
    """The first function that the program must call and does not; "" for none."""
    code = scan.without_comments(text)
    return next((c for c in exercise.calls if not re.search(rf"\b{c}\s*\(", code)), "")


def _sanitized(exercise: ProgramExercise, path: Path, arguments: list[str]) -> _Run:
    with weft.sanitizer.sanitize(raises=False) as report:
        run = _run(exercise, path, arguments)
    finding = str(report.findings[0]) if report.findings else ""
    return replace(run, finding=finding, devices=report.devices)


def _run(
    exercise: ProgramExercise, path: Path, arguments: list[str], idle: int | None = None
) -> _Run:
    """Run the program on simulated GPUs; kernels of the idle one return at once."""
    with tempfile.TemporaryFile() as output:
        code = program.run(
            str(path), arguments, gpus=exercise.gpus, idle=idle, stdout=output.fileno()
        )
        output.seek(0)
        return _Run(code, output.read().decode(errors="replace").split())


def _on_gpu(path: Path, arguments: list[str]) -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        command = [*compute_sanitizer.command_of(str(path), folder), *arguments]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, encoding="utf-8"
        )
    return _Run(done.returncode, done.stdout.split())


def _is_right(run: _Run, expected: float) -> bool:
    try:
        return [math.isclose(float(word), expected, rel_tol=1e-5) for word in run.printed] == [True]
    except ValueError:
        return False
