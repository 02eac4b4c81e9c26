"""`weft new ladder NAME` and `weft new op NAME`: create the files of a ladder or of an op."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.climbing import scaffold as ladders
from weft.errors import ArgumentError
from weft.ops.core import scaffold as families


class TemplateKind(StrEnum):
    """The kinds of folders that `weft new` creates."""

    ladder = "ladder"
    op = "op"


def run(
    kind: Annotated[TemplateKind, typer.Argument(help="What to create: ladder or op.")],
    name: Annotated[str, typer.Argument(help="Its name.")],
    where: Annotated[
        Path | None, typer.Option("--in", help="Create the ladder in this folder.")
    ] = None,
    json: show.Json = False,
) -> None:
    """Create a ladder of your own, or an op of weft's library.

    `weft new ladder NAME` makes a folder with an operation and two rungs, for `weft climb ./NAME`.
    `weft new op NAME` makes a family of ops, with its test, in a clone of weft's repository.
    """
    if kind is TemplateKind.ladder:
        files = ladders.new_ladder(name, where or Path("."))
        folder = files[0].parent
        following = f"weft climb {folder if folder.is_absolute() else f'./{folder}'}"
    elif where is not None:
        raise ArgumentError("a new op has its place in weft's repository", got=f"--in {where}")
    else:
        files = families.new_family(name)
        folder, following = files[0].parent, f"pytest {os.path.relpath(files[-1])}"
    if json:
        paths = sorted(map(str, files))
        show.data({"kind": kind.value, "folder": str(folder), "files": paths})
        return
    for file in sorted(os.path.relpath(file) for file in files):
        show.line(file)
    show.line(f"\nNext: {following}")
