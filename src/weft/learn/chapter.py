"""Finds the chapters of the course and reads `chapter.toml`.

    title = "Memory and coalescing"

    [[exercise]]
    name = "columns"                   # exercise_columns.cu, solution_columns.cu
    goal = "Let neighbouring threads write neighbouring elements."
    signature = "x:f32[h,w] -> y:f32[w,h]"
    reference = "x.T"                  # of NumPy arrays in float64, or a function of that name
    cases = [{ h = 64, w = 64 }, { h = 33, w = 70 }]
    launch = ["transpose<<<(cdiv(w, 32), cdiv(h, 32)), (32, 32)>>>"]
    rules = ["store sectors per request <= 4"]
    fails = "store sectors per request <= 4"
    hints = ["Which thread writes y[0]? Which one writes y[1]?"]

`fails` is what the exercise fails at as given: "compile", "right", "sanitize", or one of the rules.
A Python exercise has a function `run` with the arrays and sizes as parameters and no `launch`.
A reference that is no expression is a function in `references.py`, with the exercise's name.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.climbing.rung import Rung, step
from weft.errors import ArgumentError
from weft.measure.op import Case, Op, array_specs

HOME = Path(__file__).parent / "chapters"
STAGES = ("compile", "right", "sanitize")
"""What an exercise must pass before its rules are looked at."""
KEYS = {
    "name", "goal", "signature", "reference", "cases", "launch", "scratch", "clear", "rules",
    "fails", "hints", "arrays", "reduce",
}  # fmt: skip


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter.

    chapter, name   where it belongs, and what it is called
    goal            the task in one sentence
    given           the file that the learner starts from
    solution        the file that passes
    op              what it computes, and the sizes that it is checked on
    rules           what its counters must be
    fails           what the given file fails at
    hints           from vague to plain; none is the solution
    """

    chapter: int
    name: str
    goal: str
    given: Path
    solution: Path
    op: Op
    launch: tuple[str, ...]
    scratch: str
    clear: tuple[str, ...]
    arrays: str
    rules: tuple[str, ...]
    fails: str
    hints: tuple[str, ...]

    @property
    def title(self) -> str:
        """Its chapter and name: "04 columns"."""
        return f"{self.chapter:02} {self.name}"

    def attempt(self, path: Path) -> Rung:
        """A learner's file as something that the machinery of ladders can run."""
        return Rung(
            self.chapter, self.name, path, self.goal, tuple(step(path, t) for t in self.launch),
            array_specs(self.scratch) if self.scratch else (), self.clear, self.rules, "", "f32",
            self.arrays, {},
        )  # fmt: skip


@dataclass(frozen=True)
class Chapter:
    """One chapter: its text and its exercises."""

    number: int
    title: str
    folder: Path
    exercises: tuple[Exercise, ...]

    @property
    def text(self) -> str:
        """The text of `chapter.md`."""
        return (self.folder / "chapter.md").read_text()


@functools.cache
def chapters() -> tuple[Chapter, ...]:
    """All chapters, in order."""
    return tuple(read(path.parent) for path in sorted(HOME.glob("ch*/chapter.toml")))


def find(number: int) -> Chapter:
    """The chapter of a number."""
    by_number = {c.number: c for c in chapters()}
    if number not in by_number:
        raise ArgumentError(
            "there is no such chapter",
            got=str(number),
            allowed=", ".join(f"{n:02}" for n in by_number),
            next="weft learn shows the map",
        )
    return by_number[number]


def read(folder: Path) -> Chapter:
    """Reads a chapter from its folder."""
    named = re.fullmatch(r"ch(\d\d)_\w+", folder.name)
    if named is None:
        raise ArgumentError("not the folder of a chapter", got=folder.name, allowed="chNN_name")
    table = tomllib.loads((folder / "chapter.toml").read_text())
    number = int(named[1])
    exercises = tuple(_exercise(folder, number, row) for row in table.get("exercise", ()))
    return Chapter(number, str(table["title"]), folder, exercises)


def _exercise(folder: Path, number: int, row: Mapping[str, Any]) -> Exercise:
    name = str(row["name"])
    _known_keys(folder, name, row)
    given, solution = _file(folder, "exercise", name), _file(folder, "solution", name)
    rules, fails = tuple(row.get("rules", ())), str(row["fails"])
    if fails not in (*STAGES, *rules):
        raise ArgumentError(
            "an exercise says what it fails at as given",
            where=f"{folder.name}, {name}",
            got=fails,
            allowed=", ".join((*STAGES, *rules)),
        )
    signature = str(row["signature"])
    op = Op(
        name,
        signature,
        reference=_reference(folder, name, signature, row.get("reference", "")),
        cases=[Case.of(sizes) for sizes in row["cases"]],
        reduce=str(row.get("reduce", "")),
    )
    return Exercise(
        number, name, str(row["goal"]), given, solution, op, tuple(row.get("launch", ())),
        str(row.get("scratch", "")), tuple(row.get("clear", ())),
        str(row.get("arrays", "torch" if given.suffix == ".py" else "")), rules, fails,
        tuple(row["hints"]),
    )  # fmt: skip


def _known_keys(folder: Path, name: str, row: Mapping[str, Any]) -> None:
    for key in row.keys() - KEYS:
        near = difflib.get_close_matches(key, KEYS, 1)
        raise ArgumentError(
            "an exercise has no such key",
            where=f"{folder.name}, {name}",
            got=key,
            allowed=", ".join(sorted(KEYS)),
            next=f"did you mean '{near[0]}'?" if near else "",
        )


def _file(folder: Path, kind: str, name: str) -> Path:
    for suffix in (".cu", ".py"):
        path = folder / f"{kind}_{name}{suffix}"
        if path.is_file():
            return path
    raise ArgumentError(
        f"the {kind} has no file", where=folder.name, got=name, allowed=f"{kind}_{name}.cu or .py"
    )


def _reference(folder: Path, name: str, signature: str, text: str) -> Callable[..., Any]:
    """The reference: an expression of NumPy and the inputs, or a function in `references.py`."""
    if text:
        inputs = ", ".join(s.name for s in array_specs(signature.split("->")[0], signature))
        # The chapter's author wrote it, as the reference of a ladder.
        function: Callable[..., Any] = eval(f"lambda {inputs}: {text}", {"np": np})
        return function
    spec = importlib.util.spec_from_file_location(
        f"weft_references_{folder.name}", folder / "references.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, name)
    return found
