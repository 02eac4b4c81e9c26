"""The map of the course: chapters, puzzles and reviews with a learner's progress."""

from __future__ import annotations

from datetime import UTC, datetime

from weft.learn import progress
from weft.learn.chapter import Chapter, chapters
from weft.learn.exercise import Exercise
from weft.learn.progress import Progress
from weft.learn.puzzle import puzzles
from weft.tasks.learn.options import LearnOptions
from weft.tasks.learn.review import due
from weft.values.learn.course import ChapterProgress, CourseMap, ExerciseProgress, PuzzleProgress


def course_map(options: LearnOptions, now: datetime | None = None) -> CourseMap:
    """The chapters that are meant, all puzzles, and what is due for a review."""
    known = options.folder.progress()
    done = {c.number for c in chapters() if all(known.of(e.title).passed for e in c.exercises)}
    return CourseMap(
        tuple(_chapter(c, options, known, done) for c in options.chapters()),
        () if options.what else tuple(puzzle_list(options, known)),
        tuple(e.title for e in due(options, known, now or datetime.now(UTC))),
        options.path / progress.FILE,
        known.damaged,
    )


def puzzle_list(options: LearnOptions, known: Progress | None = None) -> list[PuzzleProgress]:
    """All puzzles, with the learner's progress."""
    passed = (known or options.folder.progress()).passed
    return [
        PuzzleProgress(
            p.number, p.name, p.goal, {key: a.title in passed for key, a in p.answers.items()}
        )
        for p in puzzles()
    ]


def _chapter(c: Chapter, options: LearnOptions, known: Progress, done: set[int]) -> ChapterProgress:
    return ChapterProgress(
        c.number,
        c.title,
        options.folder.started(c.folder.name),
        tuple(_exercise(e, known) for e in c.exercises),
        c.needs,
        tuple(n for n in c.needs if n not in done),
    )


def _exercise(e: Exercise, known: Progress) -> ExerciseProgress:
    state = known.of(e.title)
    at = state.due.isoformat(timespec="seconds") if state.due else ""
    return ExerciseProgress(
        e.name, state.passed, state.tries, state.hints, state.reviews, at, dict(state.facts)
    )
