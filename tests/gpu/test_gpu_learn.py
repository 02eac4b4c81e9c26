"""The course on a real GPU: every solution of chapters and puzzles is right there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("torch")
from weft.device import driver
from weft.learn.chapter import Chapter, chapters
from weft.learn.exercise import Exercise
from weft.learn.puzzle import LANGUAGES, puzzles
from weft.learn.verify import verify

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Numba's, with a newer NumPy
]


def numba_works() -> bool:
    """True if the installed Numba fits the installed NumPy: some pairs fail at every kernel."""
    try:
        from numba import cuda

        cuda.jit("void(float32[:])")(lambda x: None)
    except (ImportError, AttributeError):
        return False
    return True


def skip_without_numba(exercises: Sequence[Exercise]) -> None:
    if any("from numba import" in e.text for e in exercises) and not numba_works():
        pytest.skip("the installed Numba does not work with the installed NumPy")


@pytest.mark.parametrize("one", chapters(), ids=lambda c: c.folder.name)
def test_solutions_of_a_chapter_are_right(one: Chapter) -> None:
    skip_without_numba(one.exercises)
    # Programs for several GPUs are right on simulated ones: tests/learn/test_learn.py.
    here = [e for e in one.exercises if getattr(e, "gpus", 1) <= driver.count()]
    assert [f"{p.exercise}: {p.error}" for p in verify(here, "gpu") if p.error] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_solutions_of_puzzles_are_right(language: str) -> None:
    answers = [p.answers[language] for p in puzzles()]
    skip_without_numba(answers)
    assert [f"{p.exercise}: {p.error}" for p in verify(answers, "gpu") if p.error] == []
