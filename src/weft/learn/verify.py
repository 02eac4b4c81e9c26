"""Proves that every exercise fails as given, for the stated reason, and can be solved.

On a real GPU the solutions alone are run: what an exercise gets wrong may be right there by luck.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from weft.device.selection import select
from weft.learn.exercise import Exercise
from weft.learn.grade import grade
from weft.values.learn.course import Proof


def verify(exercises: Iterable[Exercise], device: str = "sim") -> Iterator[Proof]:
    """Grade every exercise twice: as given, and its solution."""
    chosen = select(device)
    chosen.require("verify on", next="--device sim proves the exercises without a GPU")
    real = chosen.real
    for exercise in exercises:
        if real and not exercise.gpu:
            continue
        error = "" if real else _given(exercise, device)
        if not error:
            solution = grade(exercise, exercise.solution, device)
            if not solution.passed:
                error = f"the solution fails at {solution.stage}: {solution.words}"
        yield Proof(exercise.title, error)


def _given(exercise: Exercise, device: str) -> str:
    """The error of an exercise that does not fail for its stated reason; "" if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, exercise.file)
        path.write_text(exercise.text, encoding="utf-8")
        given = grade(exercise, path, device)
    if given.stage == exercise.fails:
        return ""
    failed = given.stage or "nothing"
    return f"as given it fails at {failed}, not at {exercise.fails}: {given.words}"
