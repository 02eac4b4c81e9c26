"""Texts and messages in other languages: files beside the originals, and a table of messages."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.learn import chapter, messages
from weft.source import scan
from weft.tasks.learn import language

TRANSLATED = sorted(chapter.HOME.glob("*/chapter.*.md"))
"""Files such as ch01_gpu/chapter.de.md."""


def learn(folder: Path, *words: str) -> str:
    return CliRunner().invoke(app, ["learn", *words, "--in", str(folder)]).output


def fences(text: str) -> list[str]:
    return re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", TRANSLATED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_translation_is_complete(path: Path) -> None:
    code = path.suffixes[0][1:]
    english, other = chapter.read(path.parent), chapter.read(path.parent, code)
    assert other.language == code and other.text.startswith(f"# {other.title}\n")
    assert other.title != english.title
    assert fences(other.text) == fences(english.text), "examples are the same"
    for mark in (r"^#+ ", r"^\|", r"^\d+\. ", r"!\[", r"^- "):
        counts = [len(re.findall(mark, c.text, re.MULTILINE)) for c in (english, other)]
        assert counts[0] == counts[1], mark
    for one, its in zip(english.exercises, other.exercises, strict=True):
        assert its.title == one.title and f"*{its.name}*" in other.text
        assert its.goal != one.goal and len(its.hints) == len(one.hints)
        assert scan.without_comments(its.text).split() == scan.without_comments(one.text).split()
        assert its.text != one.text and its.solution == one.solution


def test_a_chapter_in_german_and_one_that_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = learn(tmp_path, "start", "01", "--language", "de")
    assert "01 Was eine GPU ist" in said and "Quadriere n Zahlen" in said and "note:" not in said
    assert (tmp_path / "ch01_gpu" / "chapter.de.md").is_file()
    assert "Ein Warp sind 32 Threads" in learn(tmp_path, "hint", "01", "--language", "de")
    monkeypatch.setenv(language.VARIABLE, "de")
    said = " ".join(learn(tmp_path, "start", "02").split())
    assert "no text of chapter 02 in 'de', so it is in English; chapters in 'de': 01" in said
    assert (tmp_path / "ch02_first_kernel" / "chapter.md").is_file()
    assert "01 What a GPU is" in learn(tmp_path / "english", "start", "01", "--language", "en")
    said = learn(tmp_path / "french", "start", "01", "--language", "fr", "--language", "triton")
    assert "no text of chapter 01 in 'fr'" in said and "chapters in" not in said


def test_a_word_that_is_no_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = learn(tmp_path, "start", "01", "--language", "Deutsch")
    assert "--language: not a language" in said and "of puzzles: cuda, triton, numba" in said
    monkeypatch.setenv(language.VARIABLE, "de_DE.UTF-8")
    assert "WEFT_LANGUAGE: not a language" in learn(tmp_path, "start", "01")


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (
            "load sectors per request is 32; this exercise asks for load sectors per request <= 4."
            " Line 12 has 32 load sectors per request: y[i] = 3 * x[i];",
            "load sectors per request ist 32; diese Aufgabe verlangt load sectors per request <= 4."
            " Zeile 12 hat 32 load sectors per request: y[i] = 3 * x[i];",
        ),
        (
            "The number is right, but launches is 2; this exercise asks for launches = 1.",
            "Die Zahl ist richtig, aber launches ist 2; diese Aufgabe verlangt launches = 1.",
        ),
        (
            "The number stays right without cublasSgemm, which returns at once then. The rule:"
            " the number depends on cublasSgemm.",
            "Die Zahl bleibt richtig ohne cublasSgemm, die dann sofort zurückkehrt. Die Regel:"
            " the number depends on cublasSgemm.",
        ),
        ("right, free of races; shuffles 80", "richtig, ohne Wettläufe; shuffles 80"),
        ("a message that no row has", "a message that no row has"),
    ],
)
def test_messages(english: str, german: str) -> None:
    assert messages.translated(english, "de") == german
    assert messages.translated(english, "") == messages.translated(english, "fr") == english


def test_every_table_can_be_read_and_a_wrong_row_is_refused(tmp_path: Path) -> None:
    for code in messages.languages():
        assert messages.read(messages.HOME / f"{code}.toml")
    wrong = tmp_path / "xx.toml"
    wrong.write_text('[messages]\n"{a} is {b}." = "{a} ist {c}."\n')
    with pytest.raises(weft.ArgumentError, match="names other words than its message"):
        messages.read(wrong)


def test_a_wrong_key_of_a_translation_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "ch01_gpu"
    shutil.copytree(chapter.find(1).folder, folder)
    file = folder / "chapter.de.toml"
    right = file.read_text("utf-8")
    assert set(tomllib.loads(right)) == {"title", "places", "parallel"}
    for old, new in (("[places]", "[place]"), ("goal =", "aim =")):
        file.write_text(right.replace(old, new, 1), "utf-8")
        with pytest.raises(weft.ArgumentError, match="a translation has an unknown key"):
            chapter.read(folder, "de")
