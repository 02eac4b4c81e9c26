"""The course: every exercise can be solved, and the verb keeps a learner's files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import weft
from weft.cli import app
from weft.learn import chapter, share
from weft.learn import grade as grading
from weft.learn.chapter import Chapter
from weft.learn.exercise import Exercise, ProgramExercise
from weft.learn.grade import grade
from weft.learn.verify import verify

CHAPTERS = chapter.chapters()
FOURTH = chapter.find(4)


def learn(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["learn", *arguments, "--in", str(folder)])


def exercise(name: str) -> Exercise:
    return next(e for e in FOURTH.exercises if e.name == name)


def is_long(exercise: Exercise) -> bool:
    """True for whole programs, whose compiler takes seconds; those of chapter 21 stand for all."""
    return isinstance(exercise, ProgramExercise) and not exercise.title.startswith("21 ")


def wrong(exercises: Iterable[Exercise]) -> list[str]:
    return [f"{p.exercise}: {p.error}" for p in verify([*exercises]) if p.error]


@pytest.mark.parametrize("one", CHAPTERS, ids=lambda c: c.folder.name)
def test_every_exercise_fails_as_given_and_can_be_solved(one: Chapter) -> None:
    assert not wrong(e for e in one.exercises if not is_long(e))


@pytest.mark.slow
@pytest.mark.parametrize("one", CHAPTERS, ids=lambda c: c.folder.name)
def test_every_program_fails_as_given_and_can_be_solved(one: Chapter) -> None:
    assert not wrong(e for e in one.exercises if is_long(e))


@pytest.mark.parametrize("one", CHAPTERS, ids=lambda c: c.folder.name)
def test_a_chapter_is_whole(one: Chapter) -> None:
    assert one.text.startswith(f"# {one.title}\n")
    assert one.exercises
    for e in one.exercises:
        assert e.hints, e.title
        assert f"*{e.name}*" in one.text, f"the text does not mention {e.title}"


def test_a_chapter_from_start_to_end(tmp_path: Path) -> None:
    said = learn(tmp_path, "check", "4")
    assert said.exit_code == 1 and "weft learn start 04" in said.output
    assert learn(tmp_path, "start", "4").exit_code == 0
    failed = learn(tmp_path, "check", "4", "--only", "strip")
    assert failed.exit_code == 1
    said = " ".join(failed.output.split())
    assert (
        "load sectors per request is 32; this exercise asks for load sectors per request <= 4"
        in said
    )
    assert "has 32 load sectors per request: if (i < n) y[i] = 3 * x[i];" in said
    first = learn(tmp_path, "hint", "4", "--only", "strip").output
    assert "hint 1 of 3" in first
    assert "hint 2 of 3" in learn(tmp_path, "hint", "4", "--only", "strip").output
    mine = tmp_path / "ch04_memory" / "exercise_strip.cu"
    shutil.copyfile(exercise("strip").solution, mine)
    assert learn(tmp_path, "check", "4", "--only", "strip").exit_code == 0
    shown = json.loads(learn(tmp_path, "map", "4", "--json").output)
    assert shown["chapters"][0]["passed"] == 1
    assert learn(tmp_path, "reset", "4", "--only", "strip").exit_code == 0
    assert mine.read_text() == exercise("strip").text
    kept = mine.with_name("exercise_strip.cu.old")
    assert kept.read_text() == exercise("strip").solution.read_text()
    assert json.loads(learn(tmp_path, "map", "4", "--json").output)["chapters"][0]["passed"] == 0


def test_starting_again_keeps_what_was_written(tmp_path: Path) -> None:
    learn(tmp_path, "start", "4")
    mine = tmp_path / "ch04_memory" / "exercise_strip.cu"
    mine.write_text("// mine")
    learn(tmp_path, "start", "4")
    assert mine.read_text() == "// mine"


@pytest.mark.parametrize(
    ("text", "stage", "words"),
    [
        ("__global__ void triple(", "compile", "exercise.cu"),
        ("__global__ void other(int n) {}", "right", "triple"),
        ("__global__ void triple(const float* x, float* y, int n) {}", "right", "are wrong"),
        (
            "__global__ void triple(const float* x, float* y, int n) {\n"
            "  for (int k = 0; k < 8; k++) {\n"
            "    int i = blockIdx.x * 2048 + k * 256 + threadIdx.x;\n"
            "    if (i + 1 < n && threadIdx.x % 32 < 31) y[i + 1] = 0;\n"
            "    if (i < n) y[i] = 3 * x[i]; } }",
            "sanitize",
            "race",
        ),
        (
            "__global__ void triple(const float* x, float* y, int n) {\n"
            "  for (int i = 0; i < n; i++) y[i] = 3 * x[i]; }",
            "bytes read per result <= 4",
            "asks for bytes read per result <= 4. Line 2 has 4,096 bytes read per result",
        ),
    ],
)
def test_what_a_wrong_answer_fails_at(tmp_path: Path, text: str, stage: str, words: str) -> None:
    path = tmp_path / "exercise.cu"
    path.write_text(text)
    result = grade(exercise("strip"), path)
    assert result.stage == stage
    assert words in result.words


def test_only_what_rules_need_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that counts takes longer to make than the code of the answer."""
    made: list[str] = []
    for module, name in ((grading, "profiled"), (share, "watch")):
        real = getattr(module, name)

        def noted(*given: Any, real: Any = real, name: str = name) -> Any:
            made.append(name)
            return real(*given)

        monkeypatch.setattr(module, name, noted)
    (guard,) = (e for e in chapter.find(2).exercises if e.name == "guard")
    assert grade(guard, guard.solution).passed and made == ["watch"]
    made.clear()
    # As given it fails at the first rule, which is about a counter.
    path = tmp_path / "exercise.cu"
    path.write_text(exercise("strip").text)
    assert grade(exercise("strip"), path).stage == "load sectors per request <= 4"
    assert made == ["profiled"]


def test_refusals(tmp_path: Path) -> None:
    assert "there is no such chapter" in learn(tmp_path, "start", "99").output
    assert "needs the number" in learn(tmp_path, "start").output
    assert "no such exercise" in learn(tmp_path, "reset", "4", "--only", "stripe").output
    assert "takes one word" in learn(tmp_path, "check", "4", "5").output


def test_a_chapter_with_an_error_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "ch04_memory"
    shutil.copytree(FOURTH.folder, folder)
    toml = folder / "chapter.toml"
    for old, new, said in (
        ("hints = [", "hint = [", "no such key"),
        ('fails = "load', 'fails = "lord', "fails at as given"),
        ('name = "strip"', 'name = "stripe"', "no file"),
        ("needs = [2, 3]", "needs = [4]", "needs chapters that come before it"),
    ):
        toml.write_text((FOURTH.folder / "chapter.toml").read_text().replace(old, new, 1))
        with pytest.raises(weft.ArgumentError, match=said):
            chapter.read(folder)
