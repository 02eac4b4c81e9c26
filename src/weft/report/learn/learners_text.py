"""Formats certificates and classes for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.report.words import Block, Styled, Table
from weft.values.learn.learners import PASSED, PUZZLES, Certificate, Cohort


def certificate(found: Certificate) -> Iterator[Styled]:
    """The numbers of a certificate, and the files that it leaves out."""
    yield f"{found.name}: {count(found)}", "bold"
    for title, why in found.left_out.items():
        yield f"left out: {title}: {why}", "yellow"


def count(found: Certificate) -> str:
    """12 of 71 exercises, 5 puzzles."""
    puzzles = f", {found.puzzles} puzzle{'s' * (found.puzzles != 1)}" if found.puzzles else ""
    return f"{found.passed} of {found.total} exercises{puzzles}"


def cohort(found: Cohort) -> Iterator[Block]:
    """A row for each learner, then the folders that could not be read."""
    rows = []
    for name in found.learners:
        mine = [row for row in found.rows if row.learner == name]
        passed = [row for row in mine if row.result == PASSED]
        puzzles = sum(row.chapter == PUZZLES for row in passed)
        total = sum(row.chapter != PUZZLES for row in mine)
        tries, hints = sum(row.tries for row in mine), sum(row.hints for row in mine)
        done = f"{len(passed) - puzzles} of {total}"
        rows.append((name, done, str(puzzles), str(tries), str(hints)))
    columns = ("learner", "exercises", "puzzles", "tries", "hints")
    yield Table(columns, rows, columns[1:])
    for name, lines in found.damaged.items():
        yield f"note: damaged lines in the log of {name}: {', '.join(map(str, lines))}", "yellow"
    for path, why in found.broken.items():
        yield f"broken: {path}: {why}", "red"


def created(files: Sequence[Path], places: int) -> Iterator[Styled]:
    """The files of a new chapter, and how to go on."""
    yield from ((str(file), "") for file in files)
    folder = files[0].parent
    path = folder if folder.is_absolute() else f"./{folder.as_posix()}"
    yield f"\n{places} places to fill in, marked FILL IN. Next: weft learn verify {path}", ""


def unfilled(places: Sequence[str]) -> Iterator[Styled]:
    """The places of a chapter that are to fill in."""
    if places:
        yield f"{len(places)} places are still to fill in:", "yellow"
        yield from ((f"  {place}", "") for place in places)
