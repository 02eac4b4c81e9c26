"""Runs C functions of a learner in a process of their own, which may crash."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft.errors import CompileError, MissingDependency

SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""Ends the program at a bad access or undefined behaviour, where g++ has its libraries."""
SECONDS = 20


def run(path: Path, main: str, given: bytes) -> tuple[str, str, bytes]:
    """Compile a file with a `main` that calls it; return (stage, words, standard output).

    `given` is the standard input. The stage is "sanitize" for a bad access, "right" for another
    failure, else "".
    """
    with tempfile.TemporaryDirectory() as folder:
        program = _built(path, main, Path(folder))
        # Leaks end with the process; looking for them needs rights that containers lack.
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        try:
            done = subprocess.run(
                [program], input=given, capture_output=True, check=False, timeout=SECONDS,
                env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "right", f"The program has not ended after {SECONDS} s.", b""
    said = done.stderr.decode(errors="replace")
    if "Sanitizer" in said or "runtime error:" in said:
        return "sanitize", _finding(said, path), b""
    if done.returncode:
        return "right", f"The program ends with exit code {done.returncode}. {said[:300]}", b""
    return "", "", done.stdout


def _built(path: Path, main: str, folder: Path) -> Path:
    """Compile and link; g++ without the sanitizer's libraries does without them."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise MissingDependency(
            "g++ was not found; it compiles C",
            next="install it with the system's packages, e.g. apt install g++",
        )
    program, source = folder / "program", folder / "main.c"
    source.write_text(main, encoding="utf-8")
    # g++ compiles files of C as C++; both files are then of one language.
    files = ["-x", "c++", str(path.absolute()), str(source), "-o", str(program)]
    said = ""
    for checks in (SANITIZE, ()):
        command = [compiler, "-O1", "-g", "-w", *checks, *files, "-lm"]
        done = subprocess.run(
            command, capture_output=True, check=False, encoding="utf-8", errors="replace"
        )
        if done.returncode == 0:
            return program
        said = done.stderr
    raise CompileError("g++ does not compile the file", where=path.name, got=said.strip()[:2000])


def _finding(said: str, path: Path) -> str:
    """The kind of a finding, and the first line of the learner's file in it."""
    lines = said.splitlines()
    what = next(line for line in lines if "Sanitizer" in line or "runtime error:" in line)
    where = next((line.strip() for line in lines if f"{path.name}:" in line), "")
    return f"{what.strip()} {where if where != what.strip() else ''}".strip()[:400]
