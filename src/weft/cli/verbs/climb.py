"""`weft climb NAME`: a ladder of kernels, rung by rung."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

from weft.cli import show
from weft.device import models
from weft.ops import ladder
from weft.ops.climb import Climb, Reached, climb
from weft.ops.ladder import Ladder


def run(
    name: Annotated[
        str, typer.Argument(help="A ladder that comes with weft, or a folder of your own.")
    ] = "",
    device: Annotated[str, typer.Option(help="sim: check and count; gpu: time as well.")] = "sim",
    gpu: Annotated[
        str, typer.Option(help="The GPU to count for, or to hold times against.")
    ] = models.DEFAULT,
    to: Annotated[int | None, typer.Option(help="Stop at this rung.")] = None,
    record: Annotated[Path | None, typer.Option(help="Append the result to a file.")] = None,
    json: show.Json = False,
) -> None:
    """Climb a ladder: every rung compiled, checked, and counted or timed. Without a name: a list.

    Exit code 1 when a rung is wrong, or does not do what its header says.
    """
    if not name:
        _list(json)
        return
    found = ladder.find(name)
    with _progress(quiet=json) as progress:
        task = progress.add_task("", total=None)
        result = climb(
            found,
            device=device,
            gpu=gpu,
            to=to,
            progress=lambda what: progress.update(task, description=f"{found.op.name}: {what}"),
        )
    if record is not None:
        with record.open("a") as file:
            file.write(json_text.dumps(result.to_dict()) + "\n")
    if json:
        show.data(result.to_dict())
    else:
        _show(found, result)
    if not result.right:
        raise typer.Exit(1)


def _list(json: bool) -> None:
    found = [ladder.find(name) for name in ladder.names()]
    if json:
        show.data([{"name": x.path.name, "rungs": [r.title for r in x.rungs]} for x in found])
        return
    rows = [(x.path.name, str(len(x.rungs)), _about(x)) for x in found]
    show.table(["ladder", "rungs", "what it computes"], rows, right=["rungs"])
    show.line("\nweft climb NAME")


def _about(found: Ladder) -> str:
    first = (found.path / "op.py").read_text().split('"""')
    return first[1].strip().splitlines()[0] if len(first) > 1 else found.op.signature


def _progress(*, quiet: bool) -> Progress:
    hidden = quiet or not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=show.console(), transient=True, disable=hidden)


def _show(found: Ladder, result: Climb) -> None:
    how = "timed on" if result.device.startswith("gpu") else "checked and counted for"
    show.line(f"{found.op.name}: {found.op.signature}, {how} {result.gpu}", "bold")
    rungs = {r.number: r for r in found.rungs}
    before: Reached | None = None
    for reached in result.rungs:
        rung = rungs[reached.number]
        out = Text.assemble((f"\n{rung.title}", "bold"), (f"  {reached.language}", "dim"))
        show.console().print(out, soft_wrap=True)
        show.line(f"   {rung.idea}")
        if reached.missing:
            show.line(f"   not tried: {reached.missing}", "yellow")
        elif not reached.right:
            show.line(f"   ✗ {reached.error}", "red")
        else:
            show.line(f"   ✓ right{_facts(reached, before)}", "green")
        for t in reached.times:
            peer = f", {t.of_peer:.2f} x the best peer" if t.of_peer else ""
            show.line(
                f"   {t.case}: {show.duration(t.seconds)}, {t.of_limit:.1%} of the limit{peer}"
            )
        if rung.lesson:
            show.line(f"   {rung.lesson}", "dim")
        before = reached if reached.facts else before
    for name, times in result.peers.items():
        show.line(f"\npeer  {name}")
        for t in times:
            show.line(f"   {t.case}: {show.duration(t.seconds)}, {t.of_limit:.1%} of the limit")
    for case, text in result.limits.items():
        show.line(f"limit of {case}: {text}", "dim")


def _facts(now: Reached, before: Reached | None) -> str:
    """The counters that moved by more than a tenth since the rung before."""
    moved = []
    for name, value in now.facts.items():
        old = before.facts.get(name, 0.0) if before is not None else 0.0
        if (before is None and value) or abs(value - old) > 0.1 * max(abs(old), abs(value), 1e-9):
            arrow = f"{old:,.4g} → " if before is not None else ""
            moved.append(f"\n     {name:<38} {arrow}{value:,.4g}")
    return "".join(moved)
