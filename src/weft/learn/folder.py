"""A learner's folder: copies of exercises and texts, and a small file with the progress."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import ArgumentError
from weft.learn.chapter import Chapter
from weft.learn.exercise import Exercise

PROGRESS = "progress.json"


@dataclass
class Progress:
    """What a learner has passed, and how many hints were shown for each exercise."""

    passed: set[str] = field(default_factory=set)
    hints: dict[str, int] = field(default_factory=dict)


class Folder:
    """A folder with a learner's files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, chapter: Chapter, exercise: Exercise) -> Path:
        """Where the learner's copy of an exercise lies."""
        return self.path / chapter.folder.name / exercise.given.name

    def started(self, chapter: Chapter) -> bool:
        """Whether the files of a chapter are there."""
        return (self.path / chapter.folder.name).is_dir()

    def start(self, chapter: Chapter) -> list[Path]:
        """Copies the text and the exercises of a chapter; files that exist stay as they are."""
        target = self.path / chapter.folder.name
        target.mkdir(parents=True, exist_ok=True)
        wanted = [chapter.folder / "chapter.md", *(e.given for e in chapter.exercises)]
        new = [path for path in wanted if not (target / path.name).exists()]
        for path in new:
            shutil.copyfile(path, target / path.name)
        return [target / path.name for path in new]

    def reset(self, chapter: Chapter, exercise: Exercise) -> Path:
        """Restores an exercise as given; returns where the learner's version is kept."""
        file = self.file(chapter, exercise)
        kept = file.with_name(file.name + ".old")
        if file.exists():
            file.replace(kept)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(exercise.given, file)
        progress = self.progress()
        progress.passed.discard(exercise.title)
        self.save(progress)
        return kept

    def progress(self) -> Progress:
        """Reads the progress; none if there is no file yet."""
        file = self.path / PROGRESS
        if not file.is_file():
            return Progress()
        try:
            read: Mapping[str, object] = json.loads(file.read_text())
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
        """Writes the progress, all of it or nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / PROGRESS
        text = json.dumps({"passed": sorted(progress.passed), "hints": progress.hints}, indent=1)
        part = file.with_suffix(".part")
        part.write_text(text + "\n")
        part.replace(file)
