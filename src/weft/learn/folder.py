"""A learner's folder: copies of exercises and texts, and the log of the progress."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.errors import ArgumentError
from weft.learn import progress
from weft.learn.chapter import Chapter
from weft.learn.exercise import Exercise
from weft.learn.progress import Progress

REVIEW = "review"
"""The folder, inside of the learner's, where exercises are solved once more."""


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
        file = self.path / chapter.folder.name / chapter.text_file
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
        progress.add(self.path, "reset", exercise.title)
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

    def note(
        self, exercise: Exercise, passed: bool, facts: Mapping[str, float] | None = None
    ) -> None:
        """Add a try to the progress, with the facts that were measured."""
        more = {"facts": dict(facts)} if facts else {}
        progress.add(self.path, "try", exercise.title, passed=passed, **more)

    def note_hint(self, exercise: Exercise) -> None:
        """Add to the progress that one more hint was shown."""
        progress.add(self.path, "hint", exercise.title)

    def note_review(self, exercise: Exercise, passed: bool) -> None:
        """Add a try of a review to the progress."""
        progress.add(self.path, "review", exercise.title, passed=passed)

    def progress(self) -> Progress:
        """Read the progress; none if there is no file yet."""
        return progress.read(self.path)

    @property
    def review(self) -> Folder:
        """The folder for reviews; its files are not the learner's solutions."""
        return Folder(self.path / REVIEW)


def _written(file: Path, text: str) -> bool:
    """Write a file that does not exist yet."""
    if file.exists():
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return True
