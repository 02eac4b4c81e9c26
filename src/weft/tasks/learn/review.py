"""Reviews: passed exercises are solved once more, from the given file, after growing waits.

The first review is due a day after the first pass. A review that is passed at the first try leads
to the next wait of `progress.DAYS`; after one that needed more tries, the waits begin again. Files
of reviews lie in a folder of their own, so that the learner's solutions stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from weft.errors import ArgumentError
from weft.learn.exercise import Exercise
from weft.learn.folder import REVIEW
from weft.learn.grade import grade
from weft.learn.progress import Progress
from weft.tasks.climb import Steps
from weft.tasks.learn.options import LearnOptions
from weft.values.learn.course import Grade, Review, ReviewItem

AT_ONCE = 3
"""Exercises of one review."""
NAME = REVIEW
"""The word for the files of a review: `weft learn check review`."""


def due(options: LearnOptions, known: Progress, now: datetime) -> list[Exercise]:
    """The exercises and puzzles whose review is due, the one that has waited longest first."""
    times = {title: state.due for title, state in known.states.items() if state.due}
    waiting = [e for e in options.every() if e.title in times and times[e.title] <= now]
    return sorted(waiting, key=lambda e: (times[e.title], e.title))


def review(options: LearnOptions, now: datetime | None = None) -> Review:
    """Begin a review: copy the exercises that are due, as given, into the folder of reviews."""
    known, now = options.folder.progress(), now or datetime.now(UTC)
    waiting = due(options, known, now)
    folder = options.folder.review
    begun = [e for e in waiting if folder.file(e).is_file()]
    chosen = [*begun, *(e for e in waiting if e not in begun)][:AT_ONCE]
    for exercise in chosen:
        folder.start(exercise)
    items = [
        ReviewItem(e.title, e.goal, folder.file(e), _day(known.of(e.title).due)) for e in chosen
    ]
    later = [state.due for state in known.states.values() if state.due and state.due > now]
    following = "" if items or not later else _day(min(later))
    return Review(tuple(items), len(waiting) - len(items), following)


def check(options: LearnOptions, steps: Steps) -> Iterator[Grade]:
    """Grade the files of the current review; one that passes is kept as *.old."""
    folder = options.folder.review
    begun = [e for e in options.every() if folder.file(e).is_file()]
    if not begun:
        raise ArgumentError(
            "there is no review to check", where=str(folder.path), next="weft learn review"
        )
    with steps(len(begun), "") as notify:
        for exercise in begun:
            notify(exercise.title)
            result = grade(exercise, folder.file(exercise))
            options.folder.note_review(exercise, result.passed)
            if result.passed:
                _set_aside(folder.file(exercise))
            yield result


def _set_aside(file: Path) -> None:
    """Rename a solved file, so that the next review begins with the given one."""
    file.replace(file.with_name(f"{file.name}.old"))


def _day(at: datetime | None) -> str:
    return at.date().isoformat() if at else ""
