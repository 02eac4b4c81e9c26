"""`weft climb NAME`: a ladder of kernels, rung by rung."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.climbing import ladder, records, summary
from weft.climbing.climb import Climb, climb
from weft.climbing.ladder import Ladder
from weft.climbing.page import page
from weft.climbing.recorded_times import with_recorded
from weft.device import models
from weft.errors import ArgumentError, Error
from weft.report.profile import write

_ONE = "weft climb NAME ..., or --all"


def run(
    name: Annotated[
        str, typer.Argument(help="A ladder that comes with weft, or a folder of your own.")
    ] = "",
    device: Annotated[str, typer.Option(help="sim: check and count; gpu: time as well.")] = "sim",
    gpu: Annotated[
        str, typer.Option(help="The GPU to count for, or to hold times against.")
    ] = models.DEFAULT,
    to: Annotated[int | None, typer.Option(min=0, help="Stop at this rung.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every ladder, a line for each.")] = False,
    record: Annotated[Path | None, typer.Option(help="Append the result to a file.")] = None,
    recorded: Annotated[
        Path | None, typer.Option("--from", help="Show what a file of records has; climb nothing.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to open in a browser.")] = None,
    json: show.Json = False,
) -> None:
    """Climb a ladder: every rung compiled, checked, and counted or timed. Without a name: a list.

    Exit code 1 when a rung is wrong, or does not do what its header says.
    """
    if every and (name or recorded or html):
        more = name or str(recorded or html)
        raise ArgumentError("--all is every ladder, shown briefly", got=more, next="leave it out")
    if not (name or every or recorded):
        if html or record or to is not None:
            raise ArgumentError("which ladder?", allowed=", ".join(ladder.names()), next=_ONE)
        _list(json)
        return
    if recorded is not None:
        found = [records.climb(recorded, name)]
    else:
        found = []
        for one in ladder.names() if every else [name]:
            found.append(_climbed(one, device, gpu, to if every else _within(one, to), json))
            if record is not None:  # at once: a later ladder may fail
                records.append(record, found[-1])
            if every and not json:
                _print(summary.failures(found[-1]))
    climbed = _ladder(name or found[0].ladder)
    if html is not None:
        write(html, page(climbed, found[0]))
    if json:
        show.data([one.to_dict() for one in found] if every else found[0].to_dict())
    elif not every:
        _show(climbed, found[0], whole=to is None)
        if html is not None:
            show.line(f"\nwrote {html}", "bold")
    if not all(one.right for one in found):
        raise typer.Exit(1)


def _climbed(name: str, device: str, gpu: str, to: int | None, json: bool) -> Climb:
    found = ladder.find(name)
    with show.ends_at_once(), show.bar(quiet=json) as progress:
        rungs = sum(to is None or r.number <= to for r in found.rungs)
        task = progress.add_task(found.op.name, total=rungs)

        def tell(what: str) -> None:
            progress.update(task, advance=1, description=f"{found.op.name}: {what}")

        result = climb(found, device=device, gpu=gpu, to=to, progress=tell)
        return result if device.startswith("gpu") else with_recorded(found, result)


def _within(name: str, to: int | None) -> int | None:
    """A rung to stop at that the ladder has."""
    last = ladder.find(name).rungs[-1].number
    if to is not None and to > last:
        raise ArgumentError(
            "no such rung to stop at", where=name, got=str(to), allowed=f"0 to {last}"
        )
    return to


def _ladder(name: str) -> Ladder | None:
    """The ladder that a climb was of; a record can be shown where its folder is not."""
    try:
        return ladder.find(name)
    except Error:
        return None


def _list(json: bool) -> None:
    found = [ladder.find(name) for name in ladder.names()]
    if json:
        show.data([{"name": x.path.name, "rungs": [r.title for r in x.rungs]} for x in found])
        return
    rows = [(x.path.name, str(len(x.rungs)), x.about) for x in found]
    show.table(["ladder", "rungs", "what it computes"], rows, right=["rungs"])
    show.line("\nweft climb NAME")


def _print(lines: Iterable[summary.Styled]) -> None:
    for text, style in lines:
        show.line(text, style)


def _show(found: Ladder | None, result: Climb, *, whole: bool) -> None:
    how = "timed on" if result.device.startswith("gpu") else "checked and counted for"
    signature = f": {found.op.signature}" if found is not None else ""
    show.line(f"{result.ladder}{signature}, {how} {result.gpu}", "bold")
    _print(summary.rungs(found, result))
    for table in summary.summaries(result):
        show.line(f"\n{table.title}", "bold")
        for text in table.about:
            show.line(text, "dim")
        show.table(table.columns, table.rows, right=table.right)
    for text in summary.notes(result):
        show.line(text, "yellow")
    if found is not None and found.text and whole:  # who stops has not asked for the rest
        own = found.path.parent != ladder.HOME
        where = found.path / "ladder.md" if own else f"weft climb {found.path.name} --html FILE"
        show.line(f"\nWhat was measured, and why: {where}")
