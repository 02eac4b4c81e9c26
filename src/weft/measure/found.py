"""Operations and their solutions in a user's file, for `weft check FILE`."""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.measure.op import Op


def solutions(path: Path, only: str = "") -> list[tuple[Op, str, Callable[..., Any]]]:
    """(operation, name, solution) of every `@op.solution` in a Python file."""
    found = [
        (op, name, run)
        for op in _operations(path)
        for name, run in op.solutions.items()
        if not only or only in (name, op.name)
    ]
    if found:
        return found
    names = [n for op in _operations(path) for n in (op.name, *op.solutions)]
    near = difflib.get_close_matches(only, names, 1)
    raise ArgumentError(
        f"nothing to check in {path}",
        got=f"no solution called '{only}'" if only else "no weft.Op with a solution",
        allowed=", ".join(names),
        next=f"did you mean '{near[0]}'?"
        if near
        else "define op = weft.Op(...) and put @op.solution before a function that computes it",
    )


def _operations(path: Path) -> list[Op]:
    if not path.is_file():
        what = "this is a folder" if path.is_dir() else "no such file"
        raise ArgumentError(what, got=str(path), allowed="a Python file")
    name = f"weft_checked_{path.stem}"
    if name not in sys.modules or getattr(sys.modules[name], "__file__", "") != str(path):
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ArgumentError("not a Python file", got=str(path), allowed="a file ending in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # whatever the user's own code may raise
            del sys.modules[name]
            raise _raised(path, error) from error
        finally:
            sys.path.remove(str(path.parent))
    values = vars(sys.modules[name]).values()
    return list({id(v): v for v in values if isinstance(v, Op)}.values())


def _raised(path: Path, error: Exception) -> ArgumentError:
    """What the file itself has raised, at its own line."""
    here = str(path.absolute())
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == here]
    line = error.lineno if isinstance(error, SyntaxError) else next(reversed(lines), None)
    return ArgumentError(
        "the file raises an error when it is imported",
        where=f"{path}:{line}" if line else str(path),
        got=f"{type(error).__name__}: {error}",
        next=f"`python {path}` shows all of it",
    )
