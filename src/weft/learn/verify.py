"""Proves that every exercise fails as given, for the stated reason, and can be solved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weft.learn.chapter import Chapter
from weft.learn.grade import Grade, grade


@dataclass(frozen=True)
class Proof:
    """An exercise as given and its solution, both graded.

    error  what is wrong with the exercise itself; "" if nothing
    """

    exercise: str
    given: Grade
    solution: Grade
    error: str


def verify(some: Iterable[Chapter]) -> Iterator[Proof]:
    """Grades every exercise of some chapters twice: as given, and its solution."""
    for chapter in some:
        for exercise in chapter.exercises:
            given, solution = grade(exercise, exercise.given), grade(exercise, exercise.solution)
            error = ""
            if given.stage != exercise.fails:
                failed = given.stage or "nothing"
                error = f"as given it fails at {failed}, not at {exercise.fails}: {given.words}"
            elif not solution.passed:
                error = f"the solution fails at {solution.stage}: {solution.words}"
            yield Proof(exercise.title, given, solution, error)
