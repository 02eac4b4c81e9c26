"""The puzzles: all can be solved in every language, and pictures show what threads touch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import weft
from weft.cli import app
from weft.learn import puzzle
from weft.learn.chapter import chapters
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, puzzles
from weft.learn.verify import verify

QUICK = [("guard", "cuda"), ("blocks", "triton"), ("shared", "numba"), ("scatter", "cuda")]
"""The exercises that the default tests prove; the slow ones prove all."""


def learn(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["learn", *arguments, "--in", str(folder)])


def wrong(name: str, language: str) -> list[str]:
    return [p.error for p in verify([puzzle.find(name).answers[language]]) if p.error]


@pytest.mark.parametrize(("name", "language"), QUICK)
def test_a_puzzle_fails_as_given_and_can_be_solved(name: str, language: str) -> None:
    assert wrong(name, language) == []


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [p.name for p in puzzles()])
def test_every_puzzle_fails_as_given_and_can_be_solved(name: str, language: str) -> None:
    assert wrong(name, language) == []


def test_puzzles_are_whole() -> None:
    assert len(puzzles()) >= 24
    named = [name for one in chapters() for name in one.puzzles]
    assert sorted(named) == sorted(p.name for p in puzzles()), "a chapter names each puzzle once"
    assert [p.number for p in puzzles()] == list(range(1, len(puzzles()) + 1))
    for one in puzzles():
        assert one.idea and set(one.answers) == set(LANGUAGES)
        for key, answer in one.answers.items():
            assert answer.hints
            # The learner's part is gone, and the rest is Python or C++ as before.
            assert LANGUAGES[key].blank in answer.text and "begin" not in answer.text
            assert answer.text != answer.solution.read_text()
            if answer.file.endswith(".py"):
                compile(answer.text, answer.file, "exec")


def test_a_picture_has_the_accesses_of_each_thread() -> None:
    answer = puzzle.find("stencil").answers["cuda"]
    seen = picture(answer, answer.solution)
    assert seen.grid[0] == 2 and seen.block[0] == 8
    second, last, idle = seen.boxes[1], seen.boxes[11], seen.boxes[12]
    assert second.reads == {"x": (0, 1, 2)} and second.writes == {"y": (1,)}
    assert last.reads == {"x": (10, 11)} and seen.name(last) == "block 1, thread 3"
    assert not idle.reads and not idle.writes
    assert "block 0, thread 1  reads x[0..2]    writes y[1]" in str(seen)


def test_a_picture_of_a_matrix_and_of_programs() -> None:
    answer = puzzle.find("blocks").answers["triton"]
    seen = picture(answer, answer.solution, "program")
    assert [b.writes["y"] for b in seen.boxes] == [
        tuple(range(8)),
        tuple(range(8, 16)),
        tuple(range(16, 20)),
    ]
    assert str(seen).startswith("program 0  reads x[0..7]")
    matrix = puzzle.find("transpose").answers["cuda"]
    assert "thread (1, 0)  reads x[0, 1]  writes y[1, 0]" in str(picture(matrix, matrix.solution))


def test_a_puzzle_from_start_to_end(tmp_path: Path) -> None:
    listed = json.loads(learn(tmp_path, "puzzle", "--json").output)
    assert listed[2]["puzzle"] == "guard" and listed[2]["passed"]["cuda"] is False
    said = learn(tmp_path, "puzzle", "guard").output
    assert "thread 9   reads x[9]" in said and "weft learn check guard" in said
    mine, answer = tmp_path / "puzzles" / "guard.cu", puzzle.find("guard").answers["cuda"]
    assert mine.read_text() == answer.text
    assert "hint 1 of 2" in learn(tmp_path, "hint", "guard").output
    mine.write_text(answer.solution.read_text())
    checked = learn(tmp_path, "check", "guard")
    assert checked.exit_code == 0 and "What your kernel touches, for n=10" in checked.output
    assert "1 of 90 puzzles" in learn(tmp_path).output
    assert json.loads(learn(tmp_path, "puzzle", "--json").output)[2]["passed"]["cuda"] is True
    assert learn(tmp_path, "reset", "guard").exit_code == 0
    assert mine.read_text() == answer.text


def test_refusals(tmp_path: Path) -> None:
    assert "did you mean 'guard'?" in learn(tmp_path, "puzzle", "gard").output
    assert "nothing to check yet" in learn(tmp_path, "check", "guard").output
    folder = tmp_path / "p01_mine"
    folder.mkdir()
    (folder / "mine.cu").write_text("__global__ void mine() {}\n")
    with pytest.raises(weft.ArgumentError, match="marks what the learner writes"):
        puzzle.given(folder / "mine.cu", LANGUAGES["cuda"])
    with pytest.raises(weft.ArgumentError, match="not the folder of a puzzle"):
        puzzle.read(tmp_path)
