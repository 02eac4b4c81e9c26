"""`weft new op NAME`: create a folder with a new ladder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.climbing import scaffold


class Kind(StrEnum):
    """The kinds of folders that `weft new` creates."""

    op = "op"


def run(
    kind: Annotated[Kind, typer.Argument(help="What to create: op.")],
    name: Annotated[str, typer.Argument(help="The name of the operation.")],
    where: Annotated[Path, typer.Option("--in", help="Create it in this folder.")] = Path("."),
    json: show.Json = False,
) -> None:
    """Create a folder with an operation and two rungs, for `weft climb ./NAME`."""
    folder = scaffold.new_op(name, where)
    files = sorted(str(path) for path in folder.iterdir())
    if json:
        show.data({"kind": kind.value, "folder": str(folder), "files": files})
        return
    for file in files:
        show.line(file)
    show.line(f"\nNext: weft climb {folder if folder.is_absolute() else f'./{folder}'}")
