"""`weft check FILE`: are the kernels of a file right?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from weft.cli import show
from weft.errors import CheckFailed
from weft.measure import check, found


def run(
    file: Annotated[Path, typer.Argument(help="A Python file with weft.Op and @op.solution.")],
    only: Annotated[str, typer.Option(help="One operation or one solution.")] = "",
    seed: Annotated[int | None, typer.Option(help="Repeat an earlier run.")] = None,
    device: Annotated[str, typer.Option(help="sim, or gpu.")] = "sim",
    json: show.Json = False,
) -> None:
    """Judge every solution in a file against its operation's float64 reference.

    Exit code 1 when one is wrong.
    """
    facts: list[dict[str, Any]] = []
    for op, name, solution in found.solutions(file, only):
        with _progress(quiet=json) as progress:
            task = progress.add_task("", total=None)

            def trial(label: str, task: Any = task, name: str = name) -> None:
                progress.update(task, description=f"{name}: {label}")

            try:
                report = check(op, solution, seed=seed, device=device, progress=trial)
                facts.append({"ok": True, **report.to_dict()})
                words, style = f"✓ {report}", "green"
            except CheckFailed as error:
                facts.append({"ok": False, "name": f"{op.name}/{name}", **_fields(error)})
                notes = "\n  ".join(getattr(error, "__notes__", ()))
                words, style = f"✗ {error}\n  {notes}", "red"
        if not json:
            show.line(words, style)
    if json:
        show.data(facts)
    if not all(fact["ok"] for fact in facts):
        raise typer.Exit(1)


def _progress(*, quiet: bool) -> Progress:
    hidden = quiet or not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=show.console(), transient=True, disable=hidden)


def _fields(error: CheckFailed) -> dict[str, Any]:
    names = "what where got allowed next trial seed index value expected ulps wrong_count map"
    return {n: getattr(error, n) for n in f"{names} writer cause evidence".split()}
