"""Makes a certificate: grades a learner's files and states what passes now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import weft
from weft.device.selection import select
from weft.errors import ArgumentError
from weft.learn.chapter import chapters
from weft.learn.exercise import Exercise
from weft.learn.grade import grade
from weft.learn.puzzle import puzzles
from weft.tasks.climb import Steps
from weft.tasks.learn.options import LearnOptions
from weft.values.learn.learners import PUZZLES, Certificate, CertifiedExercise


def certificate(options: LearnOptions, name: str, steps: Steps) -> Certificate:
    """Grade every file of a learner's folder; state those that pass, with their counters."""
    if not name.strip():
        raise ArgumentError(
            "weft learn certificate needs the learner's name",
            next='weft learn certificate --name "Ada Lovelace"',
        )
    folder = options.folder
    files = [(c, e) for c, e in by_chapter(options.texts) if folder.file(e).is_file()]
    if not files:
        raise ArgumentError(
            "there is nothing to certify yet", where=str(folder.path), next="weft learn start 01"
        )
    known, passed, left_out = folder.progress(), list[CertifiedExercise](), dict[str, str]()
    with steps(len(files), "") as notify:
        for chapter, exercise in files:
            notify(exercise.title)
            result, state = grade(exercise, folder.file(exercise)), known.of(exercise.title)
            if not result.passed:
                left_out[exercise.title] = result.words.splitlines()[0]
                continue
            passed.append(
                CertifiedExercise(
                    chapter,
                    exercise.title,
                    exercise.goal,
                    result.words,
                    result.facts,
                    state.tries,
                    state.hints,
                )
            )
    if not passed:
        raise ArgumentError(
            "no exercise passes yet",
            where=str(folder.path),
            got="; ".join(f"{title}: {why}" for title, why in left_out.items()),
            next="weft learn explain EXERCISE helps with one that fails",
        )
    return Certificate(
        name.strip(),
        datetime.now(UTC).isoformat(timespec="seconds"),
        weft.__version__,
        select("sim").model.name,
        tuple(passed),
        sum(len(c.exercises) for c in chapters()),
        left_out,
    )


def by_chapter(language: str = "") -> Iterator[tuple[str, Exercise]]:
    """Every exercise with the words for its chapter; puzzles in all languages."""
    for c in chapters(language):
        yield from ((f"{c.number:02} {c.title}", e) for e in c.exercises)
    for p in puzzles():
        yield from ((PUZZLES, answer) for answer in p.answers.values())
