"""Tasks for authors of chapters: create one, and prove exercises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from weft.errors import ArgumentError
from weft.learn import chapter, scaffold
from weft.learn.exercise import Exercise
from weft.learn.verify import verify as proofs
from weft.tasks.climb import Steps
from weft.tasks.learn.options import PUZZLES, LearnOptions
from weft.values.learn.course import Proof


def new(name: str, where: Path) -> list[Path]:
    """Create a chapter with places to fill in."""
    return scaffold.new_chapter(name, where)


def own_chapter(word: str) -> Path | None:
    """The folder that a word names: a path with a slash, or a folder chNN_name here."""
    path = Path(word)
    if word[:1].isdecimal() or not (len(path.parts) > 1 or word[:2] in ("ch", "./", ".\\")):
        return None
    if not (path / "chapter.toml").is_file():
        raise ArgumentError(
            "not the folder of a chapter",
            got=word,
            allowed="a folder chNN_name with a file chapter.toml",
            next="weft learn new NAME creates one",
        )
    return path.resolve()


def verify(options: LearnOptions, folder: Path | None, steps: Steps) -> Iterator[Proof]:
    """Prove that every exercise fails as given and that its solution passes.

    folder  the chapter of another author; without it, a part of the course
    """
    exercises = _exercises(options, folder)
    with steps(len(exercises), "") as notify:
        for proof in proofs(exercises, options.device):
            notify(proof.exercise)
            yield proof


def unfilled(folder: Path) -> list[str]:
    """The places of a chapter that its author has still to fill in."""
    return list(scaffold.unfilled(folder))


def _exercises(options: LearnOptions, folder: Path | None) -> list[Exercise]:
    if folder is not None:
        return list(chapter.read(folder).exercises)
    exercises = options.exercises()
    return exercises if options.what else exercises + replace(options, what=PUZZLES).exercises()
