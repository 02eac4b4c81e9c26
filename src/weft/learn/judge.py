"""Grades an exercise by a function of its chapter: `judges.py` has one of the exercise's name.

The function takes the learner's module, the path of a C file, or the runner of kernels. It draws
cases anew, so that a file cannot know the answers, and returns the stage that fails, "" if none
does, and words. A learner's file may import what the exercise names and nothing else: a library
could do the work.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weft.climbing.rung import load
from weft.errors import Error
from weft.learn.exercise import JudgedExercise
from weft.measure.check import user_file
from weft.source import scan

Judge = Callable[[Any], tuple[str, str]]
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]*)', re.MULTILINE)
_DYNAMIC = {"__import__", "__builtins__", "__loader__", "__spec__", "eval", "exec", "compile"}
"""Names that lead to other modules without an import."""


def judge(exercise: JudgedExercise, path: Path) -> tuple[str, str]:
    """(stage that the file fails at, words); the stage is "" if it passes."""
    text = path.read_text(encoding="utf-8")
    used = _names(text) if path.suffix == ".py" else _INCLUDE.findall(scan.without_comments(text))
    for name in used:
        if name not in exercise.imports:
            return exercise.rule, f"The file uses {name}. The rule: {exercise.rule}."
    mine = load(path) if path.suffix == ".py" else path
    try:
        return function(exercise.solution.parent, exercise.name)(mine)
    except Error:  # a compiler's message, or a compiler that is missing
        raise
    except Exception as error:  # a learner's code may raise anything
        return "right", user_file.words(path, error)


def function(folder: Path, name: str) -> Judge:
    """The function of this name in the `judges.py` of a chapter's folder."""
    spec = importlib.util.spec_from_file_location(
        f"weft_judges_{folder.name}", folder / "judges.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Judge = getattr(module, name)
    return found


def _names(text: str) -> Iterator[str]:
    """The packages that a Python file imports, and names by which it could import others."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or ".").partition(".")[0]
        elif isinstance(node, ast.Name) and node.id in _DYNAMIC:
            yield node.id
