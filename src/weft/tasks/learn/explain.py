"""Explains the mistake in a learner's file."""

from __future__ import annotations

from dataclasses import replace

from weft.errors import ArgumentError
from weft.learn.exercise import Exercise
from weft.learn.explain.mistakes import explain as explained
from weft.learn.messages import translated
from weft.tasks.learn.options import LearnOptions
from weft.values.learn.mistake import Mistake


def explain(options: LearnOptions) -> Mistake:
    """Explain the file of an exercise: of a chapter, the first one that is not passed."""
    exercise = _exercise(options)
    file = options.folder.file(exercise)
    if not file.is_file():
        raise ArgumentError(
            "there is no file to explain yet",
            where=str(file),
            next=f"weft learn start {options.padded}",
        )
    found = explained(exercise, file)
    if not options.texts:
        return found
    return replace(
        found,
        happened=translated(found.happened, options.texts),
        where=tuple(translated(line, options.texts) for line in found.where),
        cause=translated(found.cause, options.texts),
        question=translated(found.question, options.texts),
    )


def _exercise(options: LearnOptions) -> Exercise:
    some = options.needed("explain")
    passed = options.folder.progress().passed
    return next((e for e in some if e.title not in passed), some[0])
