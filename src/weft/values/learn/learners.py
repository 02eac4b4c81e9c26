"""Results about learners: certificates and classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CertifiedExercise:
    """An exercise that passes, as it was graded for the certificate.

    chapter   the number and the title of its chapter, or "puzzles"
    facts     the measured values of its rules
    """

    chapter: str
    exercise: str
    goal: str
    words: str
    facts: Mapping[str, float]
    tries: int
    hints: int


@dataclass(frozen=True)
class Certificate:
    """The exercises that a learner has passed, graded when the certificate was made.

    total     the number of exercises of all chapters
    left_out  files that fail now, and why
    """

    name: str
    when: str
    weft: str
    device: str
    exercises: tuple[CertifiedExercise, ...]
    total: int
    left_out: Mapping[str, str]

    @property
    def passed(self) -> int:
        """The number of exercises of chapters that pass."""
        return sum(e.chapter != PUZZLES for e in self.exercises)

    @property
    def puzzles(self) -> int:
        """The number of puzzles that pass, once for each language."""
        return len(self.exercises) - self.passed

    def to_dict(self) -> dict[str, Any]:
        """The certificate, for JSON."""
        return {**asdict(self), "left_out": dict(self.left_out), "passed": self.passed}


PUZZLES = "puzzles"
"""The chapter of puzzles."""
PASSED, FAILED, STARTED, NOT_STARTED = "passed", "failed", "started", "not started"
"""The results of an exercise of a class."""
COLUMNS = ("learner", "chapter", "exercise", "result", "tries", "hints", "counters")
"""The columns of the table of a class."""


@dataclass(frozen=True)
class ClassRow:
    """An exercise of a learner: `result` is one of the words above."""

    learner: str
    chapter: str
    exercise: str
    result: str
    tries: int
    hints: int
    facts: Mapping[str, float]

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `COLUMNS`."""
        facts = "; ".join(f"{name} = {value:g}" for name, value in self.facts.items())
        words = (self.learner, self.chapter, self.exercise, self.result)
        return (*words, str(self.tries), str(self.hints), facts)


@dataclass(frozen=True)
class Cohort:
    """The folders of a class.

    rows      an exercise of a learner each
    regraded  whether files were graded now; else the learners' logs were read
    broken    folders that could not be read, and why
    damaged   learners with damaged lines in their log, and the numbers of the lines
    """

    rows: tuple[ClassRow, ...]
    regraded: bool
    broken: Mapping[Path, str]
    damaged: Mapping[str, tuple[int, ...]]

    @property
    def learners(self) -> list[str]:
        """The names of the learners, in order."""
        return list(dict.fromkeys(row.learner for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """The class, for JSON."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "regraded": self.regraded,
            "broken": {str(path): why for path, why in self.broken.items()},
            "damaged_lines": {name: list(lines) for name, lines in self.damaged.items()},
        }
