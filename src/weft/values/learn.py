"""Results of the course: grades, hints, progress, and what has been started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Grade:
    """The result of one exercise.

    stage   what it failed at: "compile", "right", "sanitize" or a rule; "" if it passed
    words   what is wrong, in one paragraph; if it passed, what was measured
    """

    exercise: str
    stage: str
    words: str

    @property
    def passed(self) -> bool:
        """True if the exercise failed at no stage."""
        return not self.stage

    def to_dict(self) -> dict[str, Any]:
        """The grade, for JSON."""
        return {**vars(self), "passed": self.passed}


@dataclass(frozen=True)
class Proof:
    """An exercise as given and its solution, both graded.

    error  what is wrong with the exercise itself; "" if nothing
    """

    exercise: str
    error: str


@dataclass(frozen=True)
class Hint:
    """A hint of an exercise, its number from 1, and how many there are."""

    exercise: str
    hint: str
    number: int
    count: int

    def to_dict(self) -> dict[str, Any]:
        """The hint, for JSON."""
        return {"exercise": self.exercise, "hint": self.hint, "number": self.number}


@dataclass(frozen=True)
class ChapterProgress:
    """A chapter, the names of its exercises, and how many of them are passed."""

    chapter: int
    title: str
    started: bool
    exercises: tuple[str, ...]
    passed: int

    @property
    def done(self) -> bool:
        return self.passed == len(self.exercises)


@dataclass(frozen=True)
class PuzzleProgress:
    """A puzzle, and in which languages it is solved."""

    number: int
    puzzle: str
    goal: str
    passed: Mapping[str, bool]

    def to_dict(self) -> dict[str, Any]:
        """The puzzle, for JSON."""
        return {"puzzle": self.puzzle, "goal": self.goal, "passed": dict(self.passed)}


@dataclass(frozen=True)
class StartedChapter:
    """A chapter whose text has been copied to a file, and the puzzles that go with it."""

    chapter: int
    title: str
    text: Path
    puzzles: tuple[str, ...]


@dataclass(frozen=True)
class Started:
    """Chapters or a puzzle that have been copied into a learner's folder.

    goals  the learner's file of each exercise, and what it shall do
    new    the files that were not there before
    """

    folder: Path
    chapters: tuple[StartedChapter, ...]
    goals: Mapping[Path, str]
    new: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """The folder and the new files, for JSON."""
        return {"folder": str(self.folder), "new": [str(path) for path in self.new]}


@dataclass(frozen=True)
class TouchedElements:
    """The elements that a kernel touches for one case: as text, and as a dict for JSON."""

    case: str
    picture: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class StartedPuzzle:
    """A puzzle in one language, copied into a learner's folder."""

    number: int
    puzzle: str
    title: str
    goal: str
    idea: str
    touched: TouchedElements
    file: Path

    def to_dict(self) -> dict[str, Any]:
        """The puzzle and its picture, for JSON."""
        return {"puzzle": self.puzzle, "goal": self.goal, "picture": dict(self.touched.facts)}
