"""`weft doctor`: check the installation and print how to fix what is missing."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.text import Text

from weft.cli import show
from weft.tasks.doctor import Checkup, checkups

_NAME_COLUMNS = 28


def run(json: show.Json = False) -> None:
    """Check the installation. The exit code is 1 if kernels cannot run."""
    found: list[Checkup] = []
    for one in checkups():
        found.append(one)
        if not json:
            _print(one)
    well = all(one.ok for one in found if one.needed)
    if json:
        show.data({"ok": well, "findings": [asdict(one) for one in found]})
    else:
        show.line("\nKernels can run." if well else "\nKernels cannot run yet.", "bold")
    if not well:
        raise typer.Exit(1)


def _print(one: Checkup) -> None:
    mark, style = ("✓", "green") if one.ok else ("✗", "red") if one.needed else ("-", "dim")
    text = Text.assemble((mark, style), f" {one.name:<{_NAME_COLUMNS}} {one.found}")
    show.console().print(text, soft_wrap=True)
    if one.fix and not one.ok:
        show.line(f"  {'':<{_NAME_COLUMNS}} → {one.fix}", "yellow")
