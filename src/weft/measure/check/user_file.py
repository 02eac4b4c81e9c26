"""Loads operations and solutions from a user's file, and locates its errors."""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft import user_paths
from weft.errors import ArgumentError, Error
from weft.measure.op import Op


def solutions(path: Path, only: str = "") -> list[tuple[Op, str, Callable[..., Any]]]:
    """(operation, name, solution) of every `@op.solution` in a Python file."""
    ops = operations(path)
    names = [(op.name, list(op.solutions)) for op in ops]
    return [(ops[i], name, ops[i].solutions[name]) for i, name in chosen(path, names, only)]


def chosen(
    path: Path, ops: Sequence[tuple[str, Sequence[str]]], only: str
) -> list[tuple[int, str]]:
    """Select (index of the operation, solution); `only` names an operation or a solution."""
    wanted = [
        (index, name)
        for index, (op, names) in enumerate(ops)
        for name in names
        if not only or only in (name, op)
    ]
    if wanted:
        return wanted
    choices = [n for op, names in ops for n in (op, *names)]
    near = difflib.get_close_matches(only, choices, 1)
    raise ArgumentError(
        f"nothing to check in {path}",
        got=f"no solution called '{only}'" if only else "no weft.Op with a solution",
        allowed=", ".join(choices),
        next=f"did you mean '{near[0]}'?"
        if near
        else "define op = weft.Op(...) and put @op.solution before a function that computes it",
    )


def operations(path: Path) -> list[Op]:
    """The operations that a Python file defines or imports by name."""
    user_paths.must_exist(path)
    name = f"weft_checked_{path.stem}"
    if name not in sys.modules or getattr(sys.modules[name], "__file__", "") != str(path):
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ArgumentError(
                "not a Python file",
                got=str(path),
                allowed="a file ending in .py, which has weft.Op and solutions",
                next=f"weft check --sanitize {path} runs a CUDA program and checks its accesses",
            )
        module = importlib.util.module_from_spec(spec)
        # Registered before execution, as dataclasses and pickle look modules up by name.
        sys.modules[name] = module
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # user code may raise anything
            del sys.modules[name]
            raise raised(path, error) from error
        finally:
            sys.path.remove(str(path.parent))
    values = vars(sys.modules[name]).values()
    return list({id(v): v for v in values if isinstance(v, Op)}.values())


def solved(trusted: Path, path: Path) -> list[Op]:
    """The operations of a trusted file, with the solutions of another file.

    References, cases and data of the other file are ignored.
    """
    ops = operations(trusted)
    solutions: dict[str, dict[str, Callable[..., Any]]] = {op.name: {} for op in ops}
    for op in operations(path):
        if op.name not in solutions:
            near = difflib.get_close_matches(op.name, solutions, 1)
            raise ArgumentError(
                f"{trusted.name} has no operation of this name",
                where=str(path),
                got=repr(op.name),
                allowed=", ".join(solutions),
                next=f"did you mean '{near[0]}'?" if near else "",
            )
        solutions[op.name] |= op.solutions
    return [replace(op, solutions=solutions[op.name]) for op in ops]


def raised(path: Path, error: Exception | SystemExit) -> ArgumentError:
    """The error for an exception that the file raised during import, with its line."""
    where = place(path, error)
    if isinstance(error, SystemExit):
        return ArgumentError(
            "the file ends the program when it is imported",
            where=where,
            got=f"SystemExit({error.code!r})",
            next='put that line under `if __name__ == "__main__":`',
        )
    if isinstance(error, Error):  # a weft error explains itself
        inner = f"{where}: {error.where}" if error.where else where
        parts = {"got": error.got, "allowed": error.allowed, "next": error.next}
        return ArgumentError(error.what, where=inner, **parts)
    return ArgumentError(
        "the file raises an error when it is imported",
        where=where,
        got=f"{type(error).__name__}: {error}",
        next=f"`python {path}` shows all of it",
    )


def place(path: Path, error: BaseException) -> str:
    """`file.py:7`: the innermost line of the file in an error's traceback."""
    here = str(path.absolute())
    if isinstance(error, SyntaxError) and error.filename in (here, None):
        return f"{path}:{error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == here]
    return f"{path}:{lines[-1]}" if lines else str(path)


def words(path: Path, error: Exception) -> str:
    """Format an error of user code, with its line if the message has none."""
    if isinstance(error, Error):
        return str(error) if path.stem in str(error) else f"{path.name}: {error}"
    return f"{place(path, error)}: {type(error).__name__}: {error}"
