"""Runs the examples of the documents and writes what they print below them.

    python scripts/examples.py            writes the outputs that have changed
    python scripts/examples.py README.md  of these documents only
    python scripts/examples.py --check    fails when an example fails or prints something else

In a document, blocks of one kind are examples:

    ```python             is run; all of a document share their names
    ```sh run             is run by the shell
    ```cpp file=x.cu      is written to a file, for the examples after it
    ```text               right after an example, is what it must print

Addresses and times are not compared.

The examples of a document run in one process, the commands of weft too. It is forked from a process
that has imported PyTorch, which takes seconds. What starts programs of its own, or needs the shell,
gets more processes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import io
import linecache
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parent))
from tables import ROOT, documents

from weft.__main__ import main as weft_main

BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
CHANGING = ((re.compile(r"0x[0-9a-f]{6,}"), "0x7f..."), (re.compile(r"\b[\d.]+ m?s\b"), "1 s"))
OWN = re.compile(
    r"weft (?!run |nvcc |explain |extract |(?:profile|predict) \S+\.py)"
    r"(?P<words>[^|<>&;$`\\]*)(?P<rest>[|>][^|&;].*)?"
)
"""A line of the shell that is a command of weft, and what takes its standard output."""
COMMANDS = {"weft": "-m weft", "python": ""}
"""Command for shells -> the arguments of this Python, which has weft's dependencies."""
MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
"""The variables that `make test` gives a make below it, which prints more then."""


@dataclass(frozen=True)
class Example:
    """A block to run, and where in the document its output stands."""

    kind: str
    line: int
    code: str
    output: tuple[int, int] | None = None


def examples(text: str) -> list[Example]:
    """The examples of a document, in order."""
    found = []
    for block, after in pairwise([*BLOCK.finditer(text), None]):
        assert block is not None
        kind = block["info"].strip()
        if kind not in ("python", "sh run") and "file=" not in kind:
            continue
        follows = after is not None and not text[block.end() : after.start()].strip()
        output = after.span("code") if after and follows and after["info"] == "text" else None
        line = text.count("\n", 0, block.start()) + 2
        found.append(Example(kind, line, block["code"], output))
    return found


def outputs(path: Path, found: Sequence[Example], keep: Path | None = None) -> list[str]:
    """The output of each example; raise RuntimeError when one fails.

    They run in the folder `keep`, which then has what they write, or in a temporary one.
    """
    if not found:
        return []
    # Coverage is measured in processes that start themselves and end by themselves.
    measured = "COVERAGE_PROCESS_START" in os.environ
    context = multiprocessing.get_context("spawn" if measured else "forkserver")
    context.set_forkserver_preload(["torch", "weft.__main__"])
    with concurrent.futures.ProcessPoolExecutor(1, context) as processes:
        return processes.submit(_outputs, path, found, keep).result()


def _outputs(path: Path, found: Sequence[Example], keep: Path | None) -> list[str]:
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    with contextlib.nullcontext(keep) if keep else tempfile.TemporaryDirectory() as folder:
        _enter(Path(folder))
        for example in found:
            place = f"{path.name}:{example.line}"
            try:
                printed.append(_output(example, place, names))
            except (Exception, SystemExit) as error:
                raise RuntimeError(f"an example of {path.name} failed: {place}: {error}") from error
    return printed


def _enter(folder: Path) -> None:
    """Change into a folder that has weft and Python as commands."""
    tools = folder / "bin"
    tools.mkdir()
    for name, command in COMMANDS.items():
        (tools / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n', encoding="utf-8"
        )
        (tools / name).chmod(0o755)
    for name in MAKE:
        os.environ.pop(name, None)
    os.environ |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
        "NO_COLOR": "1",
    }
    os.chdir(folder)
    sys.path.insert(0, str(folder))


def _output(example: Example, place: str, names: dict[str, Any]) -> str:
    """The output of one example."""
    if example.kind == "python":
        # Triton reads the source of a kernel.
        lines = example.code.splitlines(True)
        linecache.cache[place] = len(example.code), None, lines, place
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(example.code, place, "exec"), names)
        return said.getvalue()
    if example.kind != "sh run":
        Path(example.kind.partition("file=")[2]).write_text(example.code, encoding="utf-8")
        importlib.invalidate_caches()
        return ""
    text = ""
    for own, block in groupby(example.code.splitlines(), lambda line: OWN.fullmatch(line)):
        command = "\n".join(block)
        code, said = _weft(own["words"], own["rest"]) if own else _shell(command)
        text += said
        if code and "|| true" not in command:
            raise RuntimeError(f"exit code {code}: {text}")
    # Progress is printed in the first run alone.
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("weft: compiling ")
    )


def _shell(command: str, given: str | None = None) -> tuple[int, str]:
    """The exit code of a shell, and what it prints."""
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        input=given,
        encoding="utf-8",
    )
    return done.returncode, done.stdout


def _weft(words: str, rest: str | None) -> tuple[int, str]:
    """The same of a command of weft, in this process; `rest` gets its standard output."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, contextlib.ExitStack() as stack:
        err = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) if rest else out
        code = 0
        with _printing_to(out, err):
            argv, sys.argv = sys.argv, ["weft", *shlex.split(words)]
            try:
                weft_main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            finally:
                sys.argv = argv
        said, complained = _text(out), _text(err) if rest else ""
    if rest is None:
        return code, said
    if rest.startswith(">") and code:
        return code, complained
    code, passed = _shell(f"cat {rest}", said)
    return code, complained + passed


@contextlib.contextmanager
def _printing_to(out: TextIO, err: TextIO) -> Iterator[None]:
    """Redirect Python's streams, and the descriptors, to which programs print that weft starts."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        for descriptor, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, descriptor)
            os.close(saved)


def _text(file: TextIO) -> str:
    file.flush()
    file.seek(0)
    return file.read()


def refreshed(path: Path) -> str:
    """A document with the outputs of its examples as they are now."""
    text = path.read_text(encoding="utf-8")
    found = examples(text)
    for example, said in reversed(list(zip(found, outputs(path, found), strict=True))):
        if example.output is not None:
            start, end = example.output
            if stable(text[start:end]) != stable(said):
                text = text[:start] + said + text[end:]
    return text


def stable(text: str) -> str:
    """Text without what changes from run to run."""
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def main(arguments: Sequence[str]) -> int:
    """Write or check every document, or those that are named; return the exit code."""
    stale = False
    named = [Path(a).resolve() for a in arguments if not a.startswith("-")]
    for path in named or documents():
        text = refreshed(path)
        if text == path.read_text("utf-8"):
            continue
        stale = True
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)}: an example prints something else; `make tables`")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: written")
    return int(stale and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
