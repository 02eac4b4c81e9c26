"""Finds the puzzles: short tasks, each in CUDA C++, Triton and Numba.

A puzzle is a folder `puzzles/pNN_name` with `puzzle.toml` and one solution for each language:
`name.cu`, `name_triton.py`, `name_numba.py`. The learner starts from the solution without the lines
between `begin` and `end`.

    goal = "Add 10 to each element."
    idea = "All threads execute the same function, each with its own number."
    signature = "x:f32[n] -> y:f32[n]"
    reference = "x + 10"
    cases = [{ n = 8 }]                # the first one is the one of the picture
    launch = "map<<<1, n>>>"           # of the kernel in CUDA C++ and in Numba
    rules = ["writing threads >= 8"]   # in CUDA C++ and in Numba
    rules_triton = ["writing threads >= 8"]
    grid_triton = "1"                  # programs, where they are not as many as the blocks
    hints = ["threadIdx.x is the number of the thread in its block."]
"""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.climbing.rung import step
from weft.errors import ArgumentError
from weft.learn import exercise
from weft.learn.exercise import Files, KernelExercise

HOME = Path(__file__).parent / "puzzles"
FOLDER = "puzzles"
"""The folder of the learner's files."""


@dataclass(frozen=True)
class Language:
    """The properties of the puzzles of one language.

    ending    the end of the names of its files, after the puzzle's name
    arrays    the arrays that `run` takes; "" for CUDA C++, which has no `run`
    blank     the placeholder of the lines that the learner writes
    unit      the unit that the picture shows as one box
    """

    name: str
    ending: str
    arrays: str
    blank: str
    unit: str


LANGUAGES: Mapping[str, Language] = {
    "cuda": Language("CUDA C++", ".cu", "", "// Your code.", "thread"),
    "triton": Language("Triton", "_triton.py", "torch", "pass  # Your code.", "program"),
    "numba": Language("Numba", "_numba.py", "numpy", "pass  # Your code.", "thread"),
}
_SOLVED = re.compile(r"^( *)(?://|#) begin\n.*?^ *(?://|#) end\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Puzzle:
    """One task in all languages.

    idea      what it is about, in a few sentences
    answers   the exercise in each language
    """

    number: int
    name: str
    goal: str
    idea: str
    answers: Mapping[str, KernelExercise]


@functools.cache
def puzzles() -> tuple[Puzzle, ...]:
    """All puzzles, in order."""
    return tuple(read(path.parent) for path in sorted(HOME.glob("p*/puzzle.toml")))


def find(name: str) -> Puzzle:
    """The puzzle of a name."""
    by_name = {p.name: p for p in puzzles()}
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, 1)
        raise ArgumentError(
            "there is no such puzzle",
            got=name,
            allowed=", ".join(by_name),
            next=f"did you mean '{near[0]}'?" if near else "weft learn puzzle lists them",
        )
    return by_name[name]


def read(folder: Path) -> Puzzle:
    """Read a puzzle from its folder."""
    named = re.fullmatch(r"p(\d\d)_(\w+)", folder.name)
    if named is None:
        raise ArgumentError("not the folder of a puzzle", got=folder.name, allowed="pNN_name")
    row: dict[str, Any] = tomllib.loads((folder / "puzzle.toml").read_text("utf-8"))
    idea, launch = str(row.pop("idea")), str(row.pop("launch"))
    name = named[2]
    answers = {key: _answer(folder, name, row, launch, LANGUAGES[key]) for key in LANGUAGES}
    return Puzzle(int(named[1]), name, str(row["goal"]), idea, answers)


def _answer(
    folder: Path, name: str, row: Mapping[str, Any], launch: str, language: Language
) -> KernelExercise:
    solution = folder / f"{name}{language.ending}"
    files = Files(folder, FOLDER, solution.name, given(solution, language), solution)
    whole: dict[str, Any] = {**row, "name": name, "arrays": language.arrays, "fails": "right"}
    one = step(solution, launch)
    rules, grid = whole.pop("rules_triton"), whole.pop("grid_triton", one.grid)
    if language.unit == "program":
        # A program of a puzzle is one warp.
        whole["rules"], launch = rules, f"{one.kernel}<<<{grid}, 32>>>"
    if language.arrays:
        whole.pop("clear", None)  # `run` launches and clears
    whole["grid" if language.arrays else "launch"] = [launch]
    answer = exercise.read(f"{name}, {language.name}", whole, files)
    assert isinstance(answer, KernelExercise)
    return answer


def given(solution: Path, language: Language) -> str:
    """The file that the learner starts from: the solution without its marked lines."""
    text, count = _SOLVED.subn(
        lambda m: f"{m[1]}{language.blank}\n", solution.read_text(encoding="utf-8")
    )
    if not count:
        raise ArgumentError(
            "a solution marks what the learner writes",
            where=str(solution),
            allowed="lines between the comments `begin` and `end`",
        )
    return text
