"""Certificates, classes and new chapters: they state what is graded, and broken folders by name."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import weft
from weft.cli import app
from weft.learn import chapter, scaffold
from weft.learn.folder import Folder
from weft.values.learn.learners import COLUMNS

FIRST, SECOND = chapter.find(1).exercises


def learn(*words: str) -> Result:
    return CliRunner().invoke(app, ["learn", *words])


def solve(folder: Path) -> None:
    """A folder with one exercise that passes and one that does not."""
    mine = Folder(folder)
    mine.write(FIRST, FIRST.solution.read_text("utf-8"))
    mine.write(SECOND, SECOND.text)
    mine.note(FIRST, False)
    mine.note(FIRST, True, {"writing threads": 192.0})
    mine.note_hint(FIRST)


# ---- certificates --------------------------------------------------------------------------------
def test_a_certificate_states_what_passes_now(tmp_path: Path) -> None:
    solve(tmp_path)
    Folder(tmp_path).note(SECOND, True)  # the log says so, and the file does not pass
    page = tmp_path / "ada.html"
    words = ("certificate", "--name", "Ada <L>", "--in", str(tmp_path), "--html", str(page))
    found = json.loads(learn(*words, "--json").output)
    assert [e["exercise"] for e in found["exercises"]] == [FIRST.title]
    assert found["exercises"][0]["facts"] == {"writing threads": 192.0}
    assert (found["exercises"][0]["tries"], found["exercises"][0]["hints"]) == (2, 1)
    assert list(found["left_out"]) == [SECOND.title]
    text = page.read_text("utf-8")
    assert "Ada &lt;L&gt;" in text and f"1 of {found['total']} exercises" in text
    assert "writing threads 192" in text and SECOND.title not in text


def test_refusals_of_a_certificate(tmp_path: Path) -> None:
    where = ("--in", str(tmp_path))
    assert "needs the learner's name" in learn("certificate", *where).output
    assert "nothing to certify yet" in learn("certificate", "--name", "Ada", *where).output
    Folder(tmp_path).write(FIRST, FIRST.text)
    said = learn("certificate", "--name", "Ada", *where)
    assert said.exit_code == 1 and "no exercise passes yet" in said.output
    assert not (tmp_path / "certificate.html").exists()


# ---- classes -------------------------------------------------------------------------------------
def test_a_class_with_broken_folders(tmp_path: Path) -> None:
    good, other = tmp_path / "anna" / "learn", tmp_path / "=ben"
    solve(good)
    solve(other)
    log = good / "progress.jsonl"
    log.write_bytes(log.read_bytes() + b"{\n")
    newer, empty, file = tmp_path / "newer", tmp_path / "empty", tmp_path / "file"
    for folder in (newer, empty):
        folder.mkdir()
    (newer / "progress.jsonl").write_text('{"v": 9}\n')
    file.write_text("")
    gone, table = tmp_path / "gone", tmp_path / "class.csv"
    paths = [str(p) for p in (newer, good, empty, file, gone, other)]
    said = learn("class", *paths, "--csv", str(table))
    assert said.exit_code == 0, said.output
    flat = " ".join(said.output.split())
    for words in ("written by a newer weft", "got a file", "got nothing", "expected a folder with"):
        assert words in flat
    assert "damaged lines in the log of anna: 4" in flat
    with table.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert tuple(rows[0]) == COLUMNS
    assert {row["learner"] for row in rows} == {"anna", "'=ben"}, "no formula in a spreadsheet"
    total = sum(len(c.exercises) for c in chapter.chapters())
    assert len(rows) == 2 * total
    assert rows[0] == {
        "learner": "anna", "chapter": "01", "exercise": "places", "result": "passed",
        "tries": "2", "hints": "1", "counters": "writing threads = 192",
    }  # fmt: skip
    assert (rows[1]["result"], rows[2]["result"]) == ("started", "not started")
    assert "needs the folders of learners" in learn("class").output


def test_a_class_is_graded_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(FIRST, FIRST.solution.read_text("utf-8"))
    folder.write(SECOND, SECOND.text)
    folder.note(SECOND, True)
    before = (tmp_path / "progress.jsonl").read_bytes()
    found = json.loads(learn("class", str(tmp_path), "--regrade", "--json").output)
    rows = {row["exercise"]: row for row in found["rows"]}
    assert rows["places"]["result"] == "passed" and rows["parallel"]["result"] == "failed"
    assert rows["places"]["facts"] == {"writing threads": 192.0}
    assert found["regraded"] and (tmp_path / "progress.jsonl").read_bytes() == before


# ---- new chapters --------------------------------------------------------------------------------
def test_a_new_chapter_is_valid_and_names_what_to_fill_in(tmp_path: Path) -> None:
    made = json.loads(learn("new", "warp_tricks", "--in", str(tmp_path), "--json").output)
    folder = Path(made["files"][0]).parent
    number = max(c.number for c in chapter.chapters()) + 1
    assert folder.name == f"ch{number:02}_warp_tricks" and len(made["fill_in"]) == 9
    one = chapter.read(folder)
    assert one.title == "Warp tricks" and one.text.startswith(f"# {one.title}\n")
    said = learn("verify", str(folder))
    assert said.exit_code == 0, said.output
    assert (
        "1 exercises fail as given" in said.output
        and "9 places are still to fill in" in said.output
    )
    assert "chapter.toml:7: goal" in said.output
    for file in folder.iterdir():
        file.write_text(file.read_text("utf-8").replace(scaffold.MARK, "About"), "utf-8")
    assert not list(scaffold.unfilled(folder))
    # The next one has the next number.
    (second, *_) = scaffold.new_chapter("more", tmp_path)
    assert second.parent.name == f"ch{number + 1:02}_more"


def test_refusals_of_a_new_chapter(tmp_path: Path) -> None:
    for name in ("", "Warp", "a-b", "1st"):
        with pytest.raises(weft.ArgumentError, match="not a name for a chapter"):
            scaffold.new_chapter(name, tmp_path)
    scaffold.new_chapter("twice", tmp_path)
    with pytest.raises(weft.ArgumentError, match="the chapter exists"):
        scaffold.new_chapter("twice", tmp_path)
    said = learn("verify", str(tmp_path / "ch99_none"))
    assert said.exit_code == 1 and "a folder chNN_name with a file chapter.toml" in said.output
