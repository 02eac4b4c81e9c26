"""The course on a real GPU: every solution of chapters and puzzles is right there."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from weft.learn.chapter import Chapter, chapters
from weft.learn.puzzle import LANGUAGES, puzzles
from weft.learn.verify import verify

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("one", chapters(), ids=lambda c: c.folder.name)
def test_solutions_of_a_chapter_are_right(one: Chapter) -> None:
    assert [f"{p.exercise}: {p.error}" for p in verify(one.exercises, "gpu") if p.error] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_solutions_of_puzzles_are_right(language: str) -> None:
    answers = [p.answers[language] for p in puzzles()]
    assert [f"{p.exercise}: {p.error}" for p in verify(answers, "gpu") if p.error] == []
