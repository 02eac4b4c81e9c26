"""Reads or grades the folders of a class, and writes the results as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.errors import ArgumentError, Error
from weft.learn import progress
from weft.learn.exercise import Exercise
from weft.learn.folder import Folder
from weft.learn.grade import grade
from weft.learn.progress import Progress
from weft.tasks.climb import Steps
from weft.tasks.learn.certificate import by_chapter
from weft.values.learn.learners import (
    COLUMNS,
    FAILED,
    NOT_STARTED,
    PASSED,
    PUZZLES,
    STARTED,
    ClassRow,
    Cohort,
)

_FORMULA = ("=", "+", "-", "@")
"""Characters that begin a formula in a spreadsheet."""


def cohort(paths: Sequence[Path], regrade: bool, steps: Steps) -> Cohort:
    """Read the logs of learners' folders, or grade their files; name the folders that are broken.

    Nothing is written to the folders.
    """
    if not paths:
        raise ArgumentError(
            "weft learn class needs the folders of learners",
            next="weft learn class anna/learn ben/learn",
        )
    rows, broken, damaged = list[ClassRow](), dict[Path, str](), dict[str, tuple[int, ...]]()
    with steps(len(paths), "") as notify:
        for path in paths:
            notify(str(path))
            try:
                known = _known(path)
                mine = list(_rows(path, known, regrade))
            except (Error, OSError, UnicodeError) as error:
                broken[path] = _words(error)
                continue
            rows += mine
            if known.damaged:
                damaged[_learner(path)] = known.damaged
    return Cohort(tuple(rows), regrade, broken, damaged)


def _words(error: Exception) -> str:
    """An error in one line, without the folder, which is named beside it."""
    if not isinstance(error, Error):
        return str(error)
    got, allowed = f"got {error.got}", f"expected {error.allowed}"
    return ", ".join([error.what, *[got] * bool(error.got), *[allowed] * bool(error.allowed)])


def as_csv(found: Cohort) -> str:
    """The rows as a table in CSV, with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    # A spreadsheet must not take the name of a folder as a formula.
    safe = ([f"'{c}" if c.startswith(_FORMULA) else c for c in r.cells()] for r in found.rows)
    writer.writerows(safe)
    return text.getvalue()


def _known(path: Path) -> Progress:
    """The progress of a folder; raise for a folder that is none of the course."""
    if not path.is_dir():
        got = "a file" if path.exists() else "nothing"
        raise ArgumentError("not a learner's folder", where=str(path), got=got, allowed="a folder")
    if not (path / progress.FILE).exists() and not any(
        (path / e.folder).is_dir() for _, e in by_chapter()
    ):
        raise ArgumentError(
            "not a learner's folder",
            where=str(path),
            allowed=f"a folder with {progress.FILE}, chapters or puzzles",
        )
    return progress.read(path)


def _rows(path: Path, known: Progress, regrade: bool) -> Iterator[ClassRow]:
    """Every exercise of the chapters, and the puzzles that were started."""
    folder = Folder(path)
    for chapter, exercise in by_chapter():
        text, state = folder.read(exercise), known.of(exercise.title)
        result, facts = _result(state, text), state.facts if state.passed else {}
        if regrade and text is not None:
            graded = grade(exercise, folder.file(exercise))
            result, facts = PASSED if graded.passed else FAILED, graded.facts
        if chapter == PUZZLES and result == NOT_STARTED:
            continue
        short = chapter if chapter == PUZZLES else chapter[:2]
        yield ClassRow(
            _learner(path), short, _name(exercise), result, state.tries, state.hints, facts
        )


def _result(state: progress.State, text: str | None) -> str:
    if state.passed or state.tries:
        return PASSED if state.passed else FAILED
    return NOT_STARTED if text is None else STARTED


def _name(exercise: Exercise) -> str:
    """The name of an exercise; a puzzle has its language in its title."""
    return exercise.title if exercise.title.startswith(f"{exercise.name},") else exercise.name


def _learner(path: Path) -> str:
    """The name of a folder; of the one around it where it is `learn`, the default of the course."""
    whole = path.resolve()
    return whole.parent.name if whole.name == "learn" else whole.name
