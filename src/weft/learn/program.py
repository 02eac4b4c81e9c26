"""Grades an exercise that is a whole CUDA program: by the sanitizer, and by what it prints.

The sanitizer also orders streams, events and the host: it finds two streams that touch the same
memory, and host code that reads a result too early. A program that prints the right number even
where its kernels return at once has computed it on the host.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import weft.sanitizer
from weft.frontends import compute_sanitizer, program
from weft.learn.exercise import ProgramExercise
from weft.source import scan
from weft.values.findings import Finding

_KERNEL = re.compile(r"__global__[^;{}]*\{")
"""A kernel up to the start of its body."""


class Judged(NamedTuple):
    """The stage that a program fails at, what is wrong, and the sanitizer's finding.

    The stage is "" if the program passes.
    """

    stage: str = ""
    words: str = ""
    finding: Finding | None = None


def judge(exercise: ProgramExercise, path: Path, *, real: bool = False) -> Judged:
    """Judge a program by what it prints, by the sanitizer and by its rules.

    Arguments are drawn anew, so that a program cannot know what to print. On a real GPU the
    sanitizer and the rules are left out.
    """
    drawn = {name: random.randint(*ends) for name, ends in exercise.arguments.items()}
    run = _on_gpu if real else _simulated
    code, printed, finding = run(path, [*map(str, drawn.values())])
    # A finding explains a wrong result, so it comes first.
    if finding is not None:
        return Judged("sanitize", str(finding), finding)
    if code != 0:
        return Judged("right", f"The program ends with exit code {code}, where 0 is expected.")
    expected = float(exercise.prints(**drawn))
    if len(printed) != 1 or not _is_close(printed[0], expected):
        case = ", ".join(f"{name} = {value}" for name, value in drawn.items())
        words = " ".join(printed)[:200] or "nothing"
        wrong = f"For {case} the program prints {words}, where {expected:g} is expected."
        return Judged("right", wrong)
    return Judged() if real else _ruled(exercise, path, [*map(str, drawn.values())], expected)


def _ruled(exercise: ProgramExercise, path: Path, arguments: list[str], expected: float) -> Judged:
    """The rule that a right program breaks, and its words."""
    text = path.read_text(encoding="utf-8")
    if call := uncalled(exercise, text):
        rule = exercise.rule(call)
        return Judged(rule, f"The number is right, but nothing calls {call}. The rule: {rule}.")
    with tempfile.TemporaryDirectory() as folder:
        idle = Path(folder, path.name)
        idle.write_text(_KERNEL.sub(r"\g<0> return;", text), encoding="utf-8")
        _, printed = _run(idle, arguments)
    if len(printed) == 1 and _is_close(printed[0], expected):
        words = "The number is right, but the host computes it: it stays right without the kernels."
        return Judged(exercise.by, f"{words} The rule: {exercise.by}.")
    return Judged()


def uncalled(exercise: ProgramExercise, text: str) -> str:
    """The first function that the program must call and does not; "" for none."""
    code = scan.without_comments(text)
    return next((c for c in exercise.calls if not re.search(rf"\b{c}\s*\(", code)), "")


def _simulated(path: Path, arguments: list[str]) -> tuple[int, list[str], Finding | None]:
    """(exit code, words that it prints, first finding of the sanitizer)."""
    with weft.sanitizer.sanitize(raises=False) as report:
        code, printed = _run(path, arguments)
    return code, printed, next(iter(report.findings), None)


def _run(path: Path, arguments: list[str]) -> tuple[int, list[str]]:
    """(exit code, words that it prints)."""
    with tempfile.TemporaryFile() as output:
        code = program.run(str(path), arguments, stdout=output.fileno())
        output.seek(0)
        return code, output.read().decode(errors="replace").split()


def _on_gpu(path: Path, arguments: list[str]) -> tuple[int, list[str], Finding | None]:
    with tempfile.TemporaryDirectory() as folder:
        command = [*compute_sanitizer.command_of(str(path), folder), *arguments]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, encoding="utf-8"
        )
    return done.returncode, done.stdout.split(), None


def _is_close(word: str, expected: float) -> bool:
    try:
        return math.isclose(float(word), expected, rel_tol=1e-5)
    except ValueError:
        return False
