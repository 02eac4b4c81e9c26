"""Finds the module that runs a user's file, by the kind of file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from weft import user_paths
from weft.errors import ArgumentError, Error
from weft.frontends.program import executable

PROGRAMS = (".cu", ".cpp", ".cc", ".cxx", "")
"""Suffixes of CUDA programs; a program of `weft nvcc` has none."""
_RUNNERS = {".py": "weft.frontends.script", **dict.fromkeys(PROGRAMS, "weft.frontends.program")}
"""Suffix -> the module whose `run(path, args, device=)` returns the exit code."""


def is_script(file: Path) -> bool:
    """True for .py files and for commands that Python runs, such as `torchrun` and `pytest`."""
    if file.suffix or not file.is_file():
        return file.suffix == ".py"
    return b"python" in _interpreter(file)


def must_be_script(file: Path) -> None:
    """Raise ArgumentError if the file does not exist, or Python does not run it."""
    user_paths.must_exist(file, what="a Python script")
    if not is_script(file):
        raise ArgumentError("this is no Python script", got=str(file), allowed="a .py file")


def _interpreter(file: Path) -> bytes:
    """The first line of a file that names its interpreter; empty for other files."""
    with file.open("rb") as opened:
        first = opened.readline(200)
    return first if first.startswith(b"#!") else b""


def script_runner() -> Any:
    """The module that runs scripts."""
    return importlib.import_module(_RUNNERS[".py"])


def runner(file: Path) -> Any:
    """The module that runs files of this kind."""
    name = _RUNNERS.get(".py" if is_script(file) else file.suffix)
    if name is None:
        raise Error(
            "weft cannot run a file of this type",
            got=str(file),
            allowed=f"files that end in {', '.join(filter(None, _RUNNERS))}",
        )
    user_paths.must_exist(file, tuple(_RUNNERS), "a Python script or a CUDA program")
    shell = not file.suffix and not is_script(file) and _interpreter(file)
    if shell and not executable.is_program(file):  # which begins with a line for the shell
        raise Error(
            "weft does not run shell scripts",
            where=str(file),
            got=shell.decode(errors="replace").strip(),
            next="pass the Python command that it starts; with pyenv: $(pyenv which NAME)",
        )
    return importlib.import_module(name)
