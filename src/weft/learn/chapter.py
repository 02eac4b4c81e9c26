"""Finds the chapters of the course: folders `chapters/chNN_name` with a text and exercises.

`chapter.toml` has the title, the numbers of the chapters that it `needs`, the names of `puzzles`
about the same things, and a table `[[exercise]]` for each exercise; `exercise.py` describes its
keys. The exercise NAME is a file `exercise_NAME` and its solution a file `solution_NAME`, both
ending in `.cu`, `.py` or `.c`.

A translation is beside the original: `chapter.de.md` is the text, `chapter.de.toml` has the title
and a table for each exercise with its `goal` and `hints`, `exercise_NAME.de.cu` has other comments.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.learn import exercise
from weft.learn.exercise import Exercise, Files

HOME = Path(__file__).parent / "chapters"


@dataclass(frozen=True)
class Chapter:
    """One chapter: its text, its exercises, and the names of puzzles about the same things.

    needs      the numbers of the chapters to know first
    language   the language of the text, by its code; "" for English
    """

    number: int
    title: str
    folder: Path
    exercises: tuple[Exercise, ...]
    puzzles: tuple[str, ...]
    needs: tuple[int, ...] = ()
    language: str = ""

    @property
    def text_file(self) -> str:
        """The name of the file with the text."""
        return f"chapter.{self.language}.md" if self.language else "chapter.md"

    @property
    def text(self) -> str:
        """The text, in the language of the chapter."""
        return (self.folder / self.text_file).read_text("utf-8")

    @property
    def figures(self) -> list[Path]:
        """The drawings that the text shows."""
        return sorted(self.folder.glob("figure_*.svg"))


@functools.cache
def chapters(language: str = "") -> tuple[Chapter, ...]:
    """All chapters, in order; those without a text in the language are in English."""
    return tuple(read(path.parent, language) for path in sorted(HOME.glob("ch*/chapter.toml")))


def find(number: int, language: str = "") -> Chapter:
    """The chapter of a number."""
    by_number = {c.number: c for c in chapters(language)}
    if number not in by_number:
        raise ArgumentError(
            "there is no such chapter",
            got=str(number),
            allowed=", ".join(f"{n:02}" for n in by_number),
            next="weft learn shows the map",
        )
    return by_number[number]


def read(folder: Path, language: str = "") -> Chapter:
    """Read a chapter from its folder."""
    named = re.fullmatch(r"ch(\d\d)_\w+", folder.name)
    if named is None:
        raise ArgumentError("not the folder of a chapter", got=folder.name, allowed="chNN_name")
    table = tomllib.loads((folder / "chapter.toml").read_text("utf-8"))
    if not (folder / f"chapter.{language}.md").is_file():
        language = ""
    words = _translation(folder, language, [str(row["name"]) for row in table.get("exercise", ())])
    number = int(named[1])
    exercises = tuple(
        _exercise(folder, number, {**row, **words.get(row["name"], {})}, language)
        for row in table.get("exercise", ())
    )
    return Chapter(
        number,
        str(words.get("title", table["title"])),
        folder,
        exercises,
        tuple(table.get("puzzles", ())),
        _needs(folder, number, table.get("needs", ())),
        language,
    )


def _needs(folder: Path, number: int, needs: Sequence[int]) -> tuple[int, ...]:
    """The chapters to know first, which come before this one."""
    for one in needs:
        if not 0 < one < number:
            raise ArgumentError(
                "a chapter needs chapters that come before it",
                where=folder.name,
                got=str(one),
                allowed=f"1 to {number - 1}",
            )
    return tuple(needs)


def _translation(folder: Path, language: str, names: Sequence[str]) -> Mapping[str, Any]:
    """The title and the words of exercises in a language; empty for English."""
    file = folder / f"chapter.{language}.toml"
    if not language or not file.is_file():
        return {}
    table = tomllib.loads(file.read_text("utf-8"))
    for key, words in table.items():
        known = ("title", *names)
        wrong = key if key not in known else ""
        if key in names:
            wrong = ", ".join(words.keys() - {"goal", "hints"})
        if wrong:
            raise ArgumentError(
                "a translation has an unknown key",
                where=f"{folder.name}/{file.name}",
                got=wrong,
                allowed=f"{', '.join(known)}; goal and hints of an exercise",
            )
    return table


def _exercise(folder: Path, number: int, row: Mapping[str, Any], language: str) -> Exercise:
    name = str(row["name"])
    given, solution = _file(folder, "exercise", name), _file(folder, "solution", name)
    translated = given.with_name(f"{given.stem}.{language}{given.suffix}")
    source = translated if language and translated.is_file() else given
    files = Files(folder, folder.name, given.name, source.read_text("utf-8"), solution)
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
