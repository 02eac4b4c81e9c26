"""`weft new op NAME`: a folder for an operation of one's own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.climbing import scaffold


class Kind(StrEnum):
    """What can be made."""

    op = "op"


def run(
    kind: Annotated[Kind, typer.Argument(help="What to make: op.")],
    name: Annotated[str, typer.Argument(help="What it is called.")],
    where: Annotated[Path, typer.Option("--in", help="The folder to make it in.")] = Path("."),
    json: show.Json = False,
) -> None:
    """Make a folder with an operation and two rungs that `weft climb ./NAME` serves."""
    folder = scaffold.new_op(name, where)
    files = sorted(str(path) for path in folder.iterdir())
    if json:
        show.data({"kind": kind.value, "folder": str(folder), "files": files})
        return
    for file in files:
        show.line(file)
    show.line(f"\nNow: weft climb {folder if folder.is_absolute() else f'./{folder}'}")
