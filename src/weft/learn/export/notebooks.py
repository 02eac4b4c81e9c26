"""Writes the course as Jupyter notebooks: one for each chapter, one for the puzzles of a language.

Code of the texts can be run, and each exercise has a cell that writes the learner's file and a cell
that grades it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.learn.chapter import Chapter
from weft.learn.exercise import Exercise
from weft.learn.export.blocks import blocks
from weft.learn.puzzle import LANGUAGES, Puzzle

Cell = dict[str, Any]
FOLDER = "learn"
"""The folder that cells write files to; `weft learn` looks there by default."""


def write(folder: Path, chapters: Sequence[Chapter], puzzles: Sequence[Puzzle]) -> list[Path]:
    """Write the notebooks into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chapter in chapters:
        for figure in chapter.figures:
            target = folder / chapter.folder.name / figure.name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(figure, target)
        written.append(_saved(folder / f"{chapter.folder.name}.ipynb", _chapter(chapter)))
    for key in LANGUAGES if puzzles else ():
        written.append(_saved(folder / f"puzzles_{key}.ipynb", _puzzles(puzzles, key)))
    return written


def _saved(path: Path, cells: Iterable[Cell]) -> Path:
    numbered = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(cells)]
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        },
        "cells": numbered,
    }
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _chapter(chapter: Chapter) -> Iterator[Cell]:
    # A notebook lies beside the folder with its figures.
    text = chapter.text.replace("](figure_", f"]({chapter.folder.name}/figure_")
    previous: Cell | None = None
    for block in blocks(text):
        if block.kind == "output":
            assert previous is not None
            previous["outputs"] = [_stream(block.text)]
            continue
        if previous is not None:
            yield previous
        previous = _CELLS.get(block.kind, _shown)(block)
    if previous is not None:
        yield previous
    number = f"{chapter.number:02}"
    yield _code(f"!weft learn start {number}")
    for exercise in chapter.exercises:
        yield from _exercise(exercise, f"{number} --only {exercise.name}", f"### {exercise.name}")


def _puzzles(puzzles: Sequence[Puzzle], key: str) -> Iterator[Cell]:
    yield _prose(f"# Puzzles in {LANGUAGES[key].name}")
    for puzzle in puzzles:
        words = f"{puzzle.name} --language {key}"
        title = f"## {puzzle.number}. {puzzle.name}\n\n{puzzle.idea}"
        yield from _exercise(puzzle.answers[key], words, title, f"!weft learn puzzle {words}")


def _exercise(exercise: Exercise, words: str, title: str, first: str = "") -> Iterator[Cell]:
    hints = "\n".join(f"1. {hint}" for hint in exercise.hints)
    folded = f"<details><summary>Hints</summary>\n\n{hints}\n\n</details>"
    yield _prose(f"{title}\n\n**{exercise.goal}**\n\n{folded}")
    if first:
        yield _code(first)
    file = f"{FOLDER}/{exercise.folder}/{exercise.file}"
    yield _code(f"%%writefile {file}\n{exercise.text.rstrip()}")
    yield _code(f"!weft learn check {words}")


# ---- cells ---------------------------------------------------------------------------------------
def _prose(text: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text: str) -> Cell:
    empty: Mapping[str, Any] = {"metadata": {}, "execution_count": None, "outputs": []}
    return {"cell_type": "code", **empty, "source": _lines(text)}


def _shown(block: Any) -> Cell:
    return _prose(f"```{block.info}\n{block.text}\n```")


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": _lines(text)}


def _lines(text: str) -> list[str]:
    """A text as the notebook format has it: a list of lines, each with its line break."""
    return text.splitlines(keepends=True)


_CELLS = {
    "prose": lambda block: _prose(block.text),
    "python": lambda block: _code(block.text),
    "shell": lambda block: _code("\n".join(f"!{line}" for line in block.text.splitlines())),
    "file": lambda block: _code(f"%%writefile {block.name}\n{block.text}"),
}
"""Kind of a block -> its cell."""
