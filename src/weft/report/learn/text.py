"""Formats grades, hints and progress of the course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.report.words import Block, Styled, Table
from weft.values.learn.course import (
    CourseMap,
    Grade,
    Hint,
    Proof,
    PuzzleProgress,
    Review,
    Started,
    StartedPuzzle,
    TouchedElements,
)


def course(found: CourseMap) -> Iterator[Block]:
    """The map: chapters with their progress, the puzzles solved, and what comes next."""
    rows = [
        (
            f"{c.chapter:02}",
            c.title,
            f"{c.passed} of {len(c.exercises)}",
            "█" * c.passed + "░" * (len(c.exercises) - c.passed),
            "" if c.done else numbers(c.missing),
        )
        for c in found.chapters
    ]
    yield Table(("", "chapter", "passed", "", "first do"), rows, ("passed",))
    if found.puzzles:
        solved, total = found.answers
        yield f"\n{solved} of {total} puzzles: weft learn puzzle", ""
    if found.due:
        yield f"{len(found.due)} due for a review: weft learn review", ""
    if found.following is not None:
        verb = "check" if found.following.started else "start"
        yield f"Next: weft learn {verb} {found.following.chapter:02}", ""
    yield from damage(found)


def damage(found: CourseMap) -> Iterator[Styled]:
    """The lines of the log that could not be read, if there are any."""
    if found.damaged:
        lines = ", ".join(map(str, found.damaged))
        yield f"note: damaged lines of {found.log} were skipped: {lines}", "yellow"


def numbers(chapters: Sequence[int]) -> str:
    """Numbers of chapters with two digits: 04, 05."""
    return ", ".join(f"{n:02}" for n in chapters)


def review(found: Review) -> Iterator[Styled]:
    """The exercises to solve once more, or the day of the next review."""
    for item in found.items:
        yield f"{item.exercise}, due {item.due}", "bold"
        yield f"edit    {item.file}: {item.goal}", ""
    if found.waiting:
        yield f"{found.waiting} more are due after these", ""
    if found.items:
        yield "\nNext: weft learn check review", ""
        return
    later = f"; the next one is due on {found.following}" if found.following else ""
    yield f"No review is due{later}.", ""


def started(found: Started, what: str) -> Iterator[Block]:
    """The files to read and to edit; `what` is the word for them."""
    if found.note:
        yield found.note, "yellow"
    for c in found.chapters:
        yield f"{c.chapter:02} {c.title}", "bold"
        yield f"read    {c.text}", ""
    for file, goal in found.goals.items():
        yield f"edit    {file}: {goal}", ""
    for c in found.chapters:
        if c.puzzles:
            yield f"puzzles {', '.join(c.puzzles)}: weft learn puzzle NAME", ""
    yield f"\nNext: weft learn check {what}, or weft learn watch", ""


def grade(one: Grade) -> Styled:
    """The line of an exercise."""
    mark, colour = ("✓", "green") if one.passed else ("✗", "red")
    return f"{mark} {one.exercise}: {one.words}", colour


def touched(kernel: str, found: TouchedElements) -> Iterator[Styled]:
    """The elements that a kernel touches; `kernel` begins the sentence."""
    yield f"{kernel} touches, for {found.case}:", ""
    yield found.picture, "dim"


def hint(found: Hint | None, what: str) -> Iterator[Styled]:
    """The next hint for `what`, or that none is needed."""
    if found is None:
        yield f"All exercises of {what} are passed.", ""
        return
    yield f"{found.exercise}, hint {found.number} of {found.count}", "bold"
    yield found.hint, ""


def restored(backups: Sequence[Path]) -> Iterator[Styled]:
    """The exercises that are as given again, and where the learner's versions are."""
    for path in backups:
        yield f"restored {path.with_suffix('')}" + (f"; yours is {path}" * path.exists()), ""


def puzzle(found: StartedPuzzle, language: str) -> Iterator[Styled]:
    """A puzzle, the picture of a solution, and the file to edit."""
    yield f"{found.number:02} {found.title}", "bold"
    yield f"{found.goal} {found.idea}\n", ""
    yield from touched("What a solution", found.touched)
    yield f"\nedit    {found.file}", ""
    asked = f" --language {language}" if language else ""
    yield f"\nNext: weft learn check {found.puzzle}{asked}", ""


def puzzles(found: Sequence[PuzzleProgress], languages: Sequence[str]) -> Iterator[Block]:
    """All puzzles, and in which languages they are solved."""
    rows = [
        (f"{p.number:02}", p.puzzle, *("✓" if done else "" for done in p.passed.values()), p.goal)
        for p in found
    ]
    yield Table(("", "puzzle", *languages, "goal"), rows)
    yield "\nNext: weft learn puzzle NAME --language cuda, triton or numba", ""


def exported(files: Sequence[Path]) -> Iterator[Styled]:
    """The number of files, and where to begin."""
    yield f"{len(files)} files; read {files[0]}", ""


def wrong(proof: Proof) -> Styled:
    """The line of an exercise that is wrong itself."""
    return f"✗ {proof.exercise}: {proof.error}", "red"


def proven(count: int, *, on_gpu: bool) -> Styled:
    """The line for a course without a wrong exercise."""
    of_gpu, of_sim = "solutions are right", "exercises fail as given, and their solutions pass"
    return f"✓ {count} {of_gpu if on_gpu else of_sim}", "green"
