"""Results of the course: grades, hints, progress, and what has been started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Grade:
    """The result of one exercise.

    stage   what it failed at: "compile", "right", "sanitize" or a rule; "" if it passed
    words   what is wrong, in one paragraph; if it passed, what was measured
    facts   the measured values of the rules, by their names, as far as they were measured
    """

    exercise: str
    stage: str
    words: str
    facts: Mapping[str, float] = field(default_factory=dict)

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
        return vars(self)


@dataclass(frozen=True)
class ExerciseProgress:
    """An exercise with a learner's progress.

    due    the time of its next review in ISO 8601; "" before the first pass
    facts  what the last passed try measured
    """

    exercise: str
    passed: bool
    tries: int
    hints: int
    reviews: int
    due: str
    facts: Mapping[str, float]


@dataclass(frozen=True)
class ChapterProgress:
    """A chapter with a learner's progress.

    needs    the numbers of the chapters to know first
    missing  those of them that are not done yet
    """

    chapter: int
    title: str
    started: bool
    exercises: tuple[ExerciseProgress, ...]
    needs: tuple[int, ...]
    missing: tuple[int, ...]

    @property
    def passed(self) -> int:
        """The number of exercises passed."""
        return sum(e.passed for e in self.exercises)

    @property
    def done(self) -> bool:
        """True if all exercises are passed."""
        return self.passed == len(self.exercises)

    def to_dict(self) -> dict[str, Any]:
        """The chapter, for JSON."""
        return {**asdict(self), "passed": self.passed, "done": self.done}


@dataclass(frozen=True)
class CourseMap:
    """The course with a learner's progress.

    due      the exercises and puzzles whose review is due
    damaged  the numbers of damaged lines of the log at `log`
    """

    chapters: tuple[ChapterProgress, ...]
    puzzles: tuple[PuzzleProgress, ...]
    due: tuple[str, ...]
    log: Path
    damaged: tuple[int, ...]

    @property
    def following(self) -> ChapterProgress | None:
        """The next chapter: the first one that is not done and whose needs are."""
        waiting = [c for c in self.chapters if not c.done]
        return next((c for c in waiting if not c.missing), waiting[0] if waiting else None)

    @property
    def exercises(self) -> tuple[int, int]:
        """The number of exercises passed, and of all."""
        every = [e for c in self.chapters for e in c.exercises]
        return sum(e.passed for e in every), len(every)

    @property
    def answers(self) -> tuple[int, int]:
        """The number of puzzles solved, and of all; each counts once for a language."""
        every = [done for p in self.puzzles for done in p.passed.values()]
        return sum(every), len(every)

    def to_dict(self) -> dict[str, Any]:
        """The map, for JSON."""
        return {
            "chapters": [c.to_dict() for c in self.chapters],
            "puzzles": [p.to_dict() for p in self.puzzles],
            "due": list(self.due),
            "damaged_lines": list(self.damaged),
        }


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
    note   a remark on the language of texts
    """

    folder: Path
    chapters: tuple[StartedChapter, ...]
    goals: Mapping[Path, str]
    new: tuple[Path, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The folder and the new files, for JSON."""
        new = [str(path) for path in self.new]
        return {"folder": str(self.folder), "new": new, "note": self.note}


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


@dataclass(frozen=True)
class ReviewItem:
    """An exercise to solve once more, and the file to solve it in; `due` is a day."""

    exercise: str
    goal: str
    file: Path
    due: str

    def to_dict(self) -> dict[str, Any]:
        """The item, for JSON."""
        return {**vars(self), "file": str(self.file)}


@dataclass(frozen=True)
class Review:
    """The exercises of a review.

    waiting     how many more are due
    following   the day on which the next one is due, where none is now; "" for none at all
    """

    items: tuple[ReviewItem, ...]
    waiting: int
    following: str

    def to_dict(self) -> dict[str, Any]:
        """The review, for JSON."""
        return {**vars(self), "items": [item.to_dict() for item in self.items]}
