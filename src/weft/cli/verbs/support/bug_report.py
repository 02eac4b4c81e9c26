"""`weft bug-report [FILE]`: collect the facts for the report of a bug."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.report.support import bug_report as report
from weft.tasks.support import bug_report as task


def run(
    file: Annotated[
        Path | None, typer.Argument(help="A script or CUDA program that fails; it is run.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The Markdown file to write.")] = Path(
        "weft-bug-report.md"
    ),
    json: show.Json = False,
) -> None:
    """Write a Markdown file with the facts that the report of a bug needs.

    It has the versions of Python, weft and its packages, the operating system, the kind of CPU, the
    GPU and its driver, and the settings WEFT_*. With FILE, it also has the error that ends the
    file, the source of the kernel, and the shapes and dtypes of its arguments. Values, other
    environment variables and your home folder are left out. Nothing is sent.
    """
    found = task.collect(file)
    if json:
        show.data(found.to_dict())
        return
    show.blocks(report.collected(found))
    show.page(out, report.markdown(found), quiet=False)
