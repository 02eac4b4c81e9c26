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
from weft.learn.grade import grade
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, Puzzle, puzzles
from weft.learn.verify import verify as proofs
from weft.progress import Notify
from weft.tasks.climb import Steps
from weft.values.learn import (
    ChapterProgress,
    Grade,
    Hint,
    Proof,
    PuzzleProgress,
    Started,
    StartedChapter,
    StartedPuzzle,
    TouchedElements,
)

PUZZLES = "puzzles"
"""The word for all of them."""


@dataclass(frozen=True)
class LearnOptions:
    """A part of the course, in a learner's folder.

    path       the learner's folder
    what       the number of a chapter, the name of a puzzle, "puzzles", or ""
    only       the name of one exercise of the chapter
    language   of puzzles; "" for CUDA C++, or all languages where all puzzles are meant
    """

    path: Path
    what: str
    only: str
    language: str
    device: str
    html: Path | None
    notebook: Path | None

    @property
    def folder(self) -> Folder:
        """The learner's folder."""
        return Folder(self.path)

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


def course(options: LearnOptions) -> list[ChapterProgress]:
    """The chapters that are meant, with the learner's progress."""
    passed, folder = options.folder.progress().passed, options.folder
    return [
        ChapterProgress(
            c.number,
            c.title,
            folder.started(c.folder.name),
            tuple(e.name for e in c.exercises),
            sum(e.title in passed for e in c.exercises),
        )
        for c in options.chapters()
    ]


def languages() -> list[str]:
    """The names of the languages of puzzles."""
    return [language.name for language in LANGUAGES.values()]


def puzzle_list(options: LearnOptions) -> list[PuzzleProgress]:
    """All puzzles, with the learner's progress."""
    passed = options.folder.progress().passed
    return [
        PuzzleProgress(
            p.number, p.name, p.goal, {key: a.title in passed for key, a in p.answers.items()}
        )
        for p in puzzles()
    ]


def start(options: LearnOptions) -> Started:
    """Copy the exercises that are meant, and the texts of their chapters, into the folder."""
    exercises, folder = options.needed("start"), options.folder
    new = tuple(folder.file(e) for e in exercises if folder.start(e))
    texts = tuple(
        StartedChapter(c.number, c.title, folder.start_text(c), tuple(c.puzzles))
        for c in options.chapters()
    )
    return Started(folder.path, texts, {folder.file(e): e.goal for e in exercises}, new)


def start_puzzle(options: LearnOptions) -> StartedPuzzle:
    """Copy the puzzle that is meant into the folder, with a picture of a solution."""
    one = options.puzzle
    assert one is not None
    exercise = one.answers[options.key]
    options.folder.start(exercise)
    return StartedPuzzle(
        one.number,
        one.name,
        exercise.title,
        exercise.goal,
        one.idea,
        _touched(exercise, exercise.solution, options),
        options.folder.file(exercise),
    )


def reset(options: LearnOptions) -> list[Path]:
    """Restore the exercises as given; return where the learner's versions are kept."""
    return [options.folder.reset(e) for e in options.needed("reset")]


def graded(folder: Folder, exercise: Exercise) -> Grade:
    """Grade the learner's copy of an exercise and note the result."""
    file = folder.file(exercise)
    if not file.is_file():
        return Grade(exercise.title, "compile", f"{file} is missing; weft learn start copies it")
    result = grade(exercise, file)
    folder.note(exercise, result.passed)
    return result


def check(options: LearnOptions, steps: Steps) -> Iterator[Grade]:
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


def watch(options: LearnOptions) -> Iterator[Grade]:
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


def hint(options: LearnOptions) -> Hint | None:
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


def touched(options: LearnOptions) -> TouchedElements | None:
    """The elements that the learner's kernel touches; None if it cannot run."""
    (exercise,) = options.exercises()
    assert isinstance(exercise, KernelExercise)
    try:
        return _touched(exercise, options.folder.file(exercise), options)
    except Error:  # the grade has said why
        return None


def _touched(exercise: KernelExercise, file: Path, options: LearnOptions) -> TouchedElements:
    seen = picture(exercise, file, LANGUAGES[options.key].unit)
    return TouchedElements(str(exercise.op.cases[0]), str(seen), seen.to_dict())


def export(options: LearnOptions, notify: Notify) -> list[Path]:
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


def verify(options: LearnOptions, steps: Steps) -> Iterator[Proof]:
    """Prove that every exercise fails as given and that its solution passes."""
    exercises = options.exercises()
    if not options.what:
        exercises += replace(options, what=PUZZLES).exercises()
    with steps(len(exercises), "") as notify:
        for proof in proofs(exercises, options.device):
            notify(proof.exercise)
            yield proof
