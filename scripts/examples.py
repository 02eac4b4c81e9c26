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
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tables import ROOT, documents

BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
CHANGING = ((re.compile(r"0x[0-9a-f]{6,}"), "0x7f..."), (re.compile(r"\b[\d.]+ m?s\b"), "1 s"))
SECONDS = 600
"""For the examples of one document: none takes a minute on an idle machine."""

DRIVER = """\
import contextlib, io, json, linecache, subprocess, sys
names = {"__name__": "__main__"}
for kind, place, code in json.load(sys.stdin):
    said = io.StringIO()
    if kind == "python":
        # Triton reads the source of a kernel.
        linecache.cache[place] = len(code), None, code.splitlines(True), place
        with contextlib.redirect_stdout(said):
            exec(compile(code, place, "exec"), names)
    elif kind == "sh run":
        done = subprocess.run(["bash", "-e", "-c", code], stdout=-1, stderr=-2, text=True)
        # Progress is printed in the first run alone.
        lines = done.stdout.splitlines(keepends=True)
        said.write("".join(line for line in lines if not line.startswith("weft: compiling ")))
        if done.returncode and "|| true" not in code:
            sys.exit(f"{place}: exit code {done.returncode}: {done.stdout}")
    else:
        open(kind.partition("file=")[2], "w").write(code)
    print(json.dumps(said.getvalue()), flush=True)
"""


COMMANDS = {"weft": "-m weft", "python": ""}
"""What a shell finds besides the system's own: this Python, which has weft's dependencies."""


@dataclass(frozen=True)
class Example:
    """A block to run, and where in the document its output stands."""

    kind: str
    line: int
    code: str
    output: tuple[int, int] | None = None


def examples(text: str) -> list[Example]:
    """What there is to run in a document, in order."""
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


def outputs(path: Path, found: Sequence[Example]) -> list[str]:
    """What the examples print, each; raises RuntimeError when one fails."""
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder, "bin")
        tools.mkdir()
        for name, command in COMMANDS.items():
            (tools / name).write_text(
                f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n', encoding="utf-8"
            )
            (tools / name).chmod(0o755)
        source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        search = os.pathsep.join([str(tools), os.environ["PATH"]])
        work = [(e.kind, f"{path.name}:{e.line}", e.code) for e in found]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER],
            input=json.dumps(work),
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": source, "PATH": search, "NO_COLOR": "1"},
            encoding="utf-8",
        )
    if done.returncode:
        raise RuntimeError(f"an example of {path.name} failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


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
    """Writes or checks every document, or those that are named; the exit code."""
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
