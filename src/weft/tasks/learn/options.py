"""The options of `weft learn`: a part of the course, in a learner's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.learn import puzzle
from weft.learn.chapter import Chapter, chapters, find
from weft.learn.exercise import Exercise
from weft.learn.folder import Folder
from weft.learn.puzzle import Puzzle, puzzles

PUZZLES = "puzzles"
"""The word for all of them."""


@dataclass(frozen=True)
class LearnOptions:
    """A part of the course, in a learner's folder.

    path       the learner's folder
    what       the number of a chapter, the name of a puzzle, "puzzles", or ""
    only       the name of one exercise of the chapter
    language   of puzzles; "" for CUDA C++, or all languages where all puzzles are meant
    texts      the language of texts, by its code; "" for English
    """

    path: Path
    what: str = ""
    only: str = ""
    language: str = ""
    texts: str = ""
    device: str = "sim"
    html: Path | None = None
    notebook: Path | None = None

    @classmethod
    def of(cls, path: Path, what: str, only: str = "", **more: Any) -> LearnOptions:
        """Options for a word: "04" and "04/strip" name a chapter and an exercise of it."""
        chapter, _, name = what.partition("/")
        return cls(path, chapter, name or only, **more)

    @property
    def folder(self) -> Folder:
        """The learner's folder."""
        return Folder(self.path)

    @property
    def chapter(self) -> Chapter | None:
        """The chapter that is meant, if it is one."""
        if not self.what or not self.what.isdecimal():
            return None
        return find(int(self.what), self.texts)

    @property
    def puzzle(self) -> Puzzle | None:
        """The puzzle that is meant, if it is one."""
        if not self.what or self.what.isdecimal() or self.what == PUZZLES:
            return None
        return puzzle.find(self.what)

    @property
    def padded(self) -> str:
        """The number of the chapter with two digits, or the name of the puzzle."""
        return f"{int(self.what):02}" if self.what.isdecimal() else self.what

    @property
    def key(self) -> str:
        """The language of the puzzle that is meant."""
        return self.language or "cuda"

    def chapters(self) -> tuple[Chapter, ...]:
        """The chapter that is meant, or all."""
        if self.chapter is not None:
            return (self.chapter,)
        return chapters(self.texts) if not self.what else ()

    def exercises(self) -> list[Exercise]:
        """All that is meant."""
        if self.puzzle is not None:
            return [self.puzzle.answers[self.key]]
        some = [e for c in self.chapters() for e in c.exercises]
        if self.what == PUZZLES:
            some = [a for p in puzzles() for a in self._answers(p)]
        chosen = [e for e in some if self.only in ("", e.name)]
        if not chosen:
            raise ArgumentError(
                "there is no such exercise",
                where=f"chapter {self.what}" if self.what else "",
                got=self.only,
                allowed=", ".join(e.name for e in some),
            )
        return chosen

    def every(self) -> list[Exercise]:
        """All exercises of all chapters and all puzzles in all languages."""
        return [e for c in chapters(self.texts) for e in c.exercises] + [
            a for p in puzzles() for a in p.answers.values()
        ]

    def needed(self, action: str) -> list[Exercise]:
        """The exercises of an action that must name a chapter or a puzzle."""
        if not self.what:
            raise ArgumentError(
                f"weft learn {action} needs the number of a chapter or the name of a puzzle",
                allowed=", ".join(f"{c.number:02}" for c in chapters()) + ", map, zip, ...",
                next=f"weft learn {action} {chapters()[0].number:02}",
            )
        return self.exercises()

    def started(self) -> list[Exercise]:
        """The exercises that have been started: whole chapters, and single puzzles."""
        some = [e for e in self.exercises() if self.folder.started(e.folder)]
        if not self.what:
            some += [a for p in puzzles() for a in self._answers(p)]
        folder = self.folder
        return [e for e in some if e.folder != puzzle.FOLDER or folder.file(e).is_file()]

    def _answers(self, one: Puzzle) -> list[Exercise]:
        return [a for language, a in one.answers.items() if self.language in ("", language)]
