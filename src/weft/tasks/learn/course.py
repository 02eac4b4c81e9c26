"""The course: chapters, puzzles and their exercises in a learner's folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from weft.errors import ArgumentError, Error
from weft.learn.exercise import Exercise, KernelExercise
from weft.learn.export import notebooks, site
from weft.learn.folder import Folder
from weft.learn.grade import grade
from weft.learn.messages import translated
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, puzzles
from weft.progress import Notify
from weft.tasks.climb import Steps
from weft.tasks.learn import language
from weft.tasks.learn.options import PUZZLES, LearnOptions
from weft.values.learn.course import (
    Grade,
    Hint,
    Started,
    StartedChapter,
    StartedPuzzle,
    TouchedElements,
)


def languages() -> list[str]:
    """The names of the languages of puzzles."""
    return [one.name for one in LANGUAGES.values()]


def start(options: LearnOptions) -> Started:
    """Copy the exercises that are meant, and the texts of their chapters, into the folder."""
    exercises, folder = options.needed("start"), options.folder
    new = tuple(folder.file(e) for e in exercises if folder.start(e))
    texts = tuple(
        StartedChapter(c.number, c.title, folder.start_text(c), tuple(c.puzzles))
        for c in options.chapters()
    )
    remark = language.note(options.chapters(), options.texts)
    return Started(folder.path, texts, {folder.file(e): e.goal for e in exercises}, new, remark)


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


def graded(folder: Folder, exercise: Exercise, texts: str = "") -> Grade:
    """Grade the learner's copy of an exercise and note the result; translate the message."""
    file = folder.file(exercise)
    if not file.is_file():
        return Grade(exercise.title, "compile", f"{file} is missing; weft learn start copies it")
    result = grade(exercise, file)
    folder.note(exercise, result.passed, result.facts)
    return replace(result, words=translated(result.words, texts))


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
            yield graded(options.folder, exercise, options.texts)


def watch(options: LearnOptions) -> Iterator[Grade]:
    """Grade files whenever they are saved, until Ctrl-C."""
    seen: dict[Path, float] = {}
    while True:
        for exercise in options.started():
            file = options.folder.file(exercise)
            changed = file.stat().st_mtime if file.is_file() else 0.0
            if changed and seen.setdefault(file, changed) != changed:
                seen[file] = changed
                yield graded(options.folder, exercise, options.texts)
        time.sleep(0.3)


def hint(options: LearnOptions) -> Hint | None:
    """The next hint of the first exercise that is not passed; None if all are."""
    progress = options.folder.progress()
    waiting = [e for e in options.needed("hint") if e.title not in progress.passed]
    if not waiting:
        return None
    exercise = waiting[0]
    seen, last = progress.of(exercise.title).hints, len(exercise.hints) - 1
    if seen <= last:
        options.folder.note_hint(exercise)
    seen = min(seen, last)
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
