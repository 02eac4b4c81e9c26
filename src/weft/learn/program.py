"""Grades an exercise that is a whole CUDA program: by the sanitizer, and by what it prints.

The sanitizer also orders streams, events and the host: it finds two streams that touch the same
memory, and host code that reads a result too early. A program that prints the right number even
where its kernels return at once has computed it on the host; one that needs a library must print
another number without it.
"""

from __future__ import annotations

import math
import random
import re
import subprocess
import tempfile
from pathlib import Path

import weft.sanitizer
from weft.climbing import counters
from weft.device.selection import Selection
from weft.frontends import compute_sanitizer, program
from weft.learn import idle, overlap
from weft.learn.exercise import ProgramExercise
from weft.source import scan


def judge(exercise: ProgramExercise, path: Path, device: Selection) -> tuple[str, str]:
    """(stage that the program fails at, what is wrong); the stage is "" if it passes.

    Arguments are drawn anew, so that a program cannot know what to print. On a real GPU the
    sanitizer and the rules are left out.
    """
    drawn = {name: random.randint(*ends) for name, ends in exercise.arguments.items()}
    run = _on_gpu if device.real else _simulated
    code, printed, finding = run(path, [*map(str, drawn.values())])
    # A finding explains a wrong result, so it comes first.
    if finding:
        return "sanitize", finding
    if code != 0:
        return "right", f"The program ends with exit code {code}, where 0 is expected."
    expected = float(exercise.prints(**drawn))
    if len(printed) != 1 or not _is_close(printed[0], expected):
        case = ", ".join(f"{name} = {value}" for name, value in drawn.items())
        words = " ".join(printed)[:200] or "nothing"
        return "right", f"For {case} the program prints {words}, where {expected:g} is expected."
    if device.real:
        return "", ""
    return _ruled(exercise, path, [*map(str, drawn.values())], expected, device)


def _ruled(
    exercise: ProgramExercise, path: Path, arguments: list[str], expected: float, device: Selection
) -> tuple[str, str]:
    """The rule that a right program breaks, and its words."""
    text = path.read_text(encoding="utf-8")
    if call := uncalled(exercise, text):
        rule = exercise.need(call) if call in exercise.needs else exercise.rule(call)
        return rule, f"The number is right, but nothing calls {call}. The rule: {rule}."
    for name in exercise.needs:
        if _prints(path.name, idle.function(text, name), arguments, expected):
            rule, words = exercise.need(name), f"The number stays right without {name}"
            return rule, f"{words}, which returns at once then. The rule: {rule}."
    if _prints(path.name, idle.kernels(text), arguments, expected):
        words = "The number is right, but the host computes it: it stays right without the kernels."
        return exercise.by, f"{words} The rule: {exercise.by}."
    known = overlap.facts(path, arguments, device.model) if exercise.facts else {}
    for rule in exercise.facts:
        if not counters.holds(path.name, rule, known):
            name = counters.fact_of(rule)
            return rule, f"{name} is {known[name]:g}; this exercise asks for {rule}."
    return "", ""


def _prints(file: str, text: str, arguments: list[str], expected: float) -> bool:
    """Return True if another program prints the expected number as well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_text(text, encoding="utf-8")
        _, printed = _run(path, arguments)
    return len(printed) == 1 and _is_close(printed[0], expected)


def uncalled(exercise: ProgramExercise, text: str) -> str:
    """The first function that the program must call and does not; "" for none."""
    code = scan.without_comments(text)
    wanted = (*exercise.calls, *exercise.needs)
    return next((c for c in wanted if not re.search(rf"\b{c}\s*\(", code)), "")


def _simulated(path: Path, arguments: list[str]) -> tuple[int, list[str], str]:
    """(exit code, words that it prints, first finding of the sanitizer)."""
    with weft.sanitizer.sanitize(raises=False) as report:
        code, printed = _run(path, arguments)
    return code, printed, str(report.findings[0]) if report.findings else ""


def _run(path: Path, arguments: list[str]) -> tuple[int, list[str]]:
    """(exit code, words that it prints)."""
    with tempfile.TemporaryFile() as output:
        code = program.run(str(path), arguments, stdout=output.fileno())
        output.seek(0)
        return code, output.read().decode(errors="replace").split()


def _on_gpu(path: Path, arguments: list[str]) -> tuple[int, list[str], str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [*compute_sanitizer.command_of(str(path), folder), *arguments]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, encoding="utf-8"
        )
    return done.returncode, done.stdout.split(), ""


def _is_close(word: str, expected: float) -> bool:
    try:
        return math.isclose(float(word), expected, rel_tol=1e-5)
    except ValueError:
        return False
