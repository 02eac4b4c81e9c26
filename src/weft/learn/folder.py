"""A learner's folder: copies of exercises and texts, and a small file with the progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import ArgumentError
from weft.learn.chapter import Chapter
from weft.learn.exercise import Exercise

PROGRESS = "progress.json"


@dataclass
class Progress:
    """The exercises that a learner has passed, and the hints shown for each exercise."""

    passed: set[str] = field(default_factory=set)
    hints: dict[str, int] = field(default_factory=dict)


class Folder:
    """A folder with a learner's files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, exercise: Exercise) -> Path:
        """The path of the learner's copy of an exercise."""
        return self.path / exercise.folder / exercise.file

    def started(self, folder: str) -> bool:
        """True if the files of a chapter, or of puzzles, are there."""
        return (self.path / folder).is_dir()

    def start(self, exercise: Exercise) -> bool:
        """Copy an exercise unless its file exists; return True if it was copied."""
        return _written(self.file(exercise), exercise.text)

    def start_text(self, chapter: Chapter) -> Path:
        """Copy the text of a chapter and its figures unless they exist; return the text's path."""
        file = self.path / chapter.folder.name / "chapter.md"
        _written(file, chapter.text)
        for figure in chapter.figures:
            _written(file.with_name(figure.name), figure.read_text("utf-8"))
        return file

    def reset(self, exercise: Exercise) -> Path:
        """Restore an exercise as given; return the path of the backup of the learner's version."""
        file = self.file(exercise)
        kept = file.with_name(file.name + ".old")
        if file.exists():
            file.replace(kept)
        _written(file, exercise.text)
        progress = self.progress()
        progress.passed.discard(exercise.title)
        self.save(progress)
        return kept

    def read(self, exercise: Exercise) -> str | None:
        """The learner's text of an exercise; None if it has not been started."""
        file = self._inside(exercise)
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def write(self, exercise: Exercise, text: str) -> Path:
        """Write the learner's text of an exercise atomically; return its path."""
        file = self._inside(exercise)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(file)
        return file

    def _inside(self, exercise: Exercise) -> Path:
        """The file of an exercise, which a link may not lead out of the folder."""
        file = self.file(exercise)
        if not file.resolve().is_relative_to(self.path.resolve()):
            raise ArgumentError(
                "the file of the exercise is a link out of the folder",
                where=str(file),
                got=str(file.resolve()),
                next="replace the link by a copy",
            )
        return file

    def note(self, exercise: Exercise, passed: bool) -> None:
        """Note in the progress whether an exercise is passed."""
        progress = self.progress()
        (progress.passed.add if passed else progress.passed.discard)(exercise.title)
        self.save(progress)

    def progress(self) -> Progress:
        """Read the progress; none if there is no file yet."""
        file = self.path / PROGRESS
        if not file.is_file():
            return Progress()
        try:
            read: Mapping[str, object] = json.loads(file.read_text("utf-8"))
            passed, hints = read["passed"], read["hints"]
            if not isinstance(passed, list) or not isinstance(hints, dict):
                raise TypeError("wrong types")
        except (ValueError, KeyError, TypeError) as error:
            raise ArgumentError(
                "the file with the progress cannot be read",
                where=str(file),
                got=str(error),
                next="delete it and run weft learn check: passed exercises are found again",
            ) from None
        return Progress(set(passed), {str(k): int(v) for k, v in hints.items()})

    def save(self, progress: Progress) -> None:
        """Write the progress atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / PROGRESS
        text = json.dumps({"passed": sorted(progress.passed), "hints": progress.hints}, indent=1)
        part = file.with_suffix(".part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(file)


def _written(file: Path, text: str) -> bool:
    """Write a file that does not exist yet."""
    if file.exists():
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return True
