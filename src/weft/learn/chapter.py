"""Finds the chapters of the course: folders `chapters/chNN_name` with a text and exercises.

`chapter.toml` has the title, the names of `puzzles` about the same things, and a table
`[[exercise]]` for each exercise; `exercise.py` describes its keys. The exercise NAME is a file
`exercise_NAME` and its solution a file `solution_NAME`, ending in `.cu`, `.py`
or `.c`.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.learn import exercise
from weft.learn.exercise import Exercise, Files

HOME = Path(__file__).parent / "chapters"


@dataclass(frozen=True)
class Chapter:
    """One chapter: its text, its exercises, and the names of puzzles about the same things."""

    number: int
    title: str
    folder: Path
    exercises: tuple[Exercise, ...]
    puzzles: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text of `chapter.md`."""
        return (self.folder / "chapter.md").read_text("utf-8")

    @property
    def figures(self) -> list[Path]:
        """The drawings that the text shows."""
        return sorted(self.folder.glob("figure_*.svg"))


@functools.cache
def chapters() -> tuple[Chapter, ...]:
    """All chapters, in order."""
    return tuple(read(path.parent) for path in sorted(HOME.glob("ch*/chapter.toml")))


def find(number: int) -> Chapter:
    """The chapter of a number."""
    by_number = {c.number: c for c in chapters()}
    if number not in by_number:
        raise ArgumentError(
            "there is no such chapter",
            got=str(number),
            allowed=", ".join(f"{n:02}" for n in by_number),
            next="weft learn shows the map",
        )
    return by_number[number]


def read(folder: Path) -> Chapter:
    """Read a chapter from its folder."""
    named = re.fullmatch(r"ch(\d\d)_\w+", folder.name)
    if named is None:
        raise ArgumentError("not the folder of a chapter", got=folder.name, allowed="chNN_name")
    table = tomllib.loads((folder / "chapter.toml").read_text("utf-8"))
    number = int(named[1])
    exercises = tuple(_exercise(folder, number, row) for row in table.get("exercise", ()))
    return Chapter(number, str(table["title"]), folder, exercises, tuple(table.get("puzzles", ())))


def _exercise(folder: Path, number: int, row: Mapping[str, Any]) -> Exercise:
    name = str(row["name"])
    given, solution = _file(folder, "exercise", name), _file(folder, "solution", name)
    files = Files(folder, folder.name, given.name, given.read_text("utf-8"), solution)
    return exercise.read(f"{number:02} {name}", row, files)


def _file(folder: Path, kind: str, name: str) -> Path:
    for suffix in (".cu", ".py", ".c"):
        path = folder / f"{kind}_{name}{suffix}"
        if path.is_file():
            return path
    raise ArgumentError(
        f"the {kind} has no file",
        where=folder.name,
        got=name,
        allowed=f"{kind}_{name}.cu, .py or .c",
    )
