"""Creates a chapter that works, with marks where its author fills in texts and exercises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from weft.errors import ArgumentError
from weft.learn import chapter

MARK = "FILL IN"
"""The mark of a place that the author fills in."""
_CODE = """\
// {head}
__global__ void work(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
{body}}}
"""
_TEXT = """\
# {title}

FILL IN: what the reader knows after this chapter, in two or three sentences.

## FILL IN: the first idea

FILL IN: the idea, with an example that can be run. Exercise *first* is about this.

## Exercises

1. *first*: FILL IN: what is wrong with the file as given, in a few words.
"""
_TABLE = """\
title = "{title}"
# FILL IN: the numbers of the chapters that readers need, e.g. needs = [2, 4]
needs = []

[[exercise]]
name = "first"
goal = "FILL IN: the task in one sentence. As it stands: double every element."
signature = "x:f32[n] -> y:f32[n]"
reference = "2 * x"
cases = [{{ n = 1000 }}, {{ n = 1 }}]
launch = ["work<<<cdiv(n, 128), 128>>>"]
rules = ["writing threads >= 1000"]
fails = "right"
hints = ["FILL IN: a vague hint.", "FILL IN: a plain one, which is not the solution."]
"""


def new_chapter(name: str, where: Path) -> list[Path]:
    """Write the files of a new chapter into a folder chNN_NAME; return their paths."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ArgumentError(
            "not a name for a chapter",
            got=name or "no name",
            allowed="lower-case letters, digits and _, beginning with a letter",
            next="weft learn new warp_tricks",
        )
    folder = where / f"ch{_number(where):02}_{name}"
    if taken := [*where.glob(f"ch[0-9][0-9]_{name}")]:
        raise ArgumentError("the chapter exists", got=str(taken[0]), next="choose another name")
    title = name.replace("_", " ").capitalize()
    store = "    if (i < n) y[i] = 2 * x[i];\n"
    files = {
        "chapter.md": _TEXT.format(title=title),
        "chapter.toml": _TABLE.format(title=title),
        "exercise_first.cu": _CODE.format(
            head=f"{MARK}: what the kernel shall do.", body="    // Your code.\n"
        ),
        "solution_first.cu": _CODE.format(head=f"{MARK}: what the kernel does.", body=store),
    }
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in files]


def unfilled(folder: Path) -> Iterator[str]:
    """The places of a chapter that are still to fill in: file, line and what is asked for."""
    for path in sorted(p for p in folder.iterdir() if p.is_file()):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if MARK in line:
                yield f"{path.name}:{number}: {line.strip()}"


def _number(where: Path) -> int:
    """The number after those of the course and of the folder."""
    own = [int(p.name[2:4]) for p in where.glob("ch[0-9][0-9]_*")]
    return max([*own, *(c.number for c in chapter.chapters())]) + 1
