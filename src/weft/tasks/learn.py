"""The course: chapters, puzzles and their exercises in a learner's folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from weft.errors import ArgumentError, Error
from weft.learn import puzzle
from weft.learn.chapter import Chapter, chapters, find
from weft.learn.exercise import Exercise, KernelExercise
from weft.learn.export import notebooks, site
from weft.learn.folder import Folder
from weft.learn.grade import Grade, grade
from weft.learn.picture import Picture, picture
from weft.learn.puzzle import LANGUAGES, Puzzle, puzzles
from weft.learn.verify import Proof
from weft.learn.verify import verify as proofs
from weft.progress import Notify
from weft.tasks.climb import Steps

PUZZLES = "puzzles"
"""The word for all of them."""


@dataclass(frozen=True)
class Options:
    """A part of the course, in a folder.

    what       the number of a chapter, the name of a puzzle, "puzzles", or ""
    only       the name of one exercise of the chapter
    language   of puzzles; "" for CUDA C++, or all languages where all puzzles are meant
    """

    folder: Folder
    what: str
    only: str
    language: str
    device: str
    html: Path | None
    notebook: Path | None

    @property
    def chapter(self) -> Chapter | None:
        """The chapter that is meant, if it is one."""
        if not self.what or not self.what.isdecimal():
            return None
        return find(int(self.what))

    @property
    def puzzle(self) -> Puzzle | None:
        """The puzzle that is meant, if it is one."""
        if not self.what or self.what.isdecimal() or self.what == PUZZLES:
            return None
        return puzzle.find(self.what)

    @property
    def padded(self) -> str:
        """The number of the chapter with two digits, or the name of the puzzle."""
        return f"{int(self.what):02}" if self.what.isdecimal() else self.what

    @property
    def key(self) -> str:
        """The language of the puzzle that is meant."""
        return self.language or "cuda"

    def chapters(self) -> tuple[Chapter, ...]:
        """The chapter that is meant, or all."""
        if self.chapter is not None:
            return (self.chapter,)
        return chapters() if not self.what else ()

    def exercises(self) -> list[Exercise]:
        """All that is meant."""
        if self.puzzle is not None:
            return [self.puzzle.answers[self.key]]
        some = [e for c in self.chapters() for e in c.exercises]
        if self.what == PUZZLES:
            some = [a for p in puzzles() for a in self._answers(p)]
        chosen = [e for e in some if self.only in ("", e.name)]
        if not chosen:
            raise ArgumentError(
                "there is no such exercise",
                where=f"chapter {self.what}" if self.what else "",
                got=self.only,
                allowed=", ".join(e.name for e in some),
            )
        return chosen

    def needed(self, action: str) -> list[Exercise]:
        """The exercises of an action that must name a chapter or a puzzle."""
        if not self.what:
            raise ArgumentError(
                f"weft learn {action} needs the number of a chapter or the name of a puzzle",
                allowed=", ".join(f"{c.number:02}" for c in chapters()) + ", map, zip, ...",
                next=f"weft learn {action} {chapters()[0].number:02}",
            )
        return self.exercises()

    def started(self) -> list[Exercise]:
        """The exercises that have been started: whole chapters, and single puzzles."""
        some = [e for e in self.exercises() if self.folder.started(e.folder)]
        if not self.what:
            some += [a for p in puzzles() for a in self._answers(p)]
        folder = self.folder
        return [e for e in some if e.folder != puzzle.FOLDER or folder.file(e).is_file()]

    def _answers(self, one: Puzzle) -> list[Exercise]:
        return [a for language, a in one.answers.items() if self.language in ("", language)]


def graded(folder: Folder, exercise: Exercise) -> Grade:
    """Grade the learner's copy of an exercise and note the result."""
    file = folder.file(exercise)
    if not file.is_file():
        return Grade(exercise.title, "compile", f"{file} is missing; weft learn start copies it")
    result = grade(exercise, file)
    folder.note(exercise, result.passed)
    return result


def check(options: Options, steps: Steps) -> Iterator[Grade]:
    """Grade the learner's files that are meant."""
    wanted = options.started()
    if not wanted:
        raise ArgumentError(
            "there is nothing to check yet",
            where=str(options.folder.path),
            next=f"weft learn start {options.padded or 'NN'}",
        )
    with steps(len(wanted), "") as notify:
        for exercise in wanted:
            notify(exercise.title)
            yield graded(options.folder, exercise)


def watch(options: Options) -> Iterator[Grade]:
    """Grade files whenever they are saved, until Ctrl-C."""
    seen: dict[Path, float] = {}
    while True:
        for exercise in options.started():
            file = options.folder.file(exercise)
            changed = file.stat().st_mtime if file.is_file() else 0.0
            if changed and seen.setdefault(file, changed) != changed:
                seen[file] = changed
                yield graded(options.folder, exercise)
        time.sleep(0.3)


@dataclass(frozen=True)
class Hint:
    """A hint of an exercise, its number from 1, and how many there are."""

    exercise: str
    hint: str
    number: int
    count: int


def hint(options: Options) -> Hint | None:
    """The next hint of the first exercise that is not passed; None if all are."""
    progress = options.folder.progress()
    waiting = [e for e in options.needed("hint") if e.title not in progress.passed]
    if not waiting:
        return None
    exercise = waiting[0]
    seen = min(progress.hints.get(exercise.title, 0), len(exercise.hints) - 1)
    progress.hints[exercise.title] = seen + 1
    options.folder.save(progress)
    return Hint(exercise.title, exercise.hints[seen], seen + 1, len(exercise.hints))


def touched(options: Options) -> Picture | None:
    """The elements that the learner's kernel touches; None if it cannot run."""
    (exercise,) = options.exercises()
    assert isinstance(exercise, KernelExercise)
    try:
        return picture(exercise, options.folder.file(exercise), LANGUAGES[options.key].unit)
    except Error:  # the grade has said why
        return None


def export(options: Options, notify: Notify) -> list[Path]:
    """Write the course, or a chapter of it, for readers."""
    if options.html is None and options.notebook is None:
        raise ArgumentError(
            "weft learn export needs a folder",
            allowed="--html DIR, --notebook DIR",
            next="weft learn export --html course",
        )
    some = () if options.what and options.what != PUZZLES else puzzles()
    written: list[Path] = []
    if options.html is not None:
        written += site.write(options.html, options.chapters(), some, notify)
    if options.notebook is not None:
        written += notebooks.write(options.notebook, options.chapters(), some)
    return written


def verify(options: Options, steps: Steps) -> Iterator[Proof]:
    """Prove that every exercise fails as given and that its solution passes."""
    exercises = options.exercises()
    if not options.what:
        exercises += replace(options, what=PUZZLES).exercises()
    with steps(len(exercises), "") as notify:
        for proof in proofs(exercises, options.device):
            notify(proof.exercise)
            yield proof
