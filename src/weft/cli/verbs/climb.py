"""`weft climb NAME`: run every rung of a ladder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, show, versions
from weft.climbing import ladder, records
from weft.climbing.entry import climb
from weft.climbing.ladder import Ladder
from weft.climbing.records import Climb
from weft.device.selection import Selection
from weft.errors import ArgumentError, Error
from weft.report import climb_text
from weft.report.climb_page import page
from weft.report.files import write
from weft.report.words import Styled
from weft.train.versions import ABOUT, NAME, TITLES

_ONE = "weft climb NAME ..., or --all"


def run(
    name: Annotated[
        str, typer.Argument(help="A ladder of weft, or the path of a ladder folder.")
    ] = "",
    device: Annotated[
        str, typer.Option(help="sim or sim:MODEL: check and count. gpu: also time.")
    ] = "sim",
    gpu: options.Gpu = None,
    to: Annotated[int | None, typer.Option(min=0, help="Stop after this rung.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Climb every ladder and print failures only.")
    ] = False,
    record: Annotated[Path | None, typer.Option(help="Append the result to this file.")] = None,
    recorded: Annotated[
        Path | None, typer.Option("--from", help="Show the records in this file; run nothing.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    json: show.Json = False,
) -> None:
    """Compile, check and profile every rung of a ladder. Without a name, list the ladders.

    On a GPU the rungs are also timed. `weft climb mnist` runs versions of a training step instead
    of kernels; each is checked against the one before. The exit code is 1 if a rung is wrong or
    its counters differ from what its header states.
    """
    chosen = options.device(device, gpu)
    if every and (name or recorded or html):
        more = name or str(recorded or html)
        raise ArgumentError(
            "--all climbs every ladder and takes no name, --from or --html",
            got=more,
            next="leave it out",
        )
    if not (name or every or recorded):
        if html or record or to is not None:
            raise ArgumentError(
                "the name of a ladder is missing", allowed=", ".join(ladder.names()), next=_ONE
            )
        _list(json)
        return
    if name == NAME:
        if recorded or html:
            raise ArgumentError(
                f"weft climb {name} takes no --from and no --html",
                next="--json prints everything; weft train mnist --html writes a page",
            )
        if not versions.climb(chosen, to, record, json):
            raise typer.Exit(1)
        return
    if recorded is not None:
        results = [records.climb(recorded, name)]
    else:
        results = []
        for one in ladder.names() if every else [name]:
            results.append(_climbed(ladder.find(one), chosen, to, record, json, every))
            if every and not json:
                _print(climb_text.failures(results[-1]))
    climbed = _ladder(name or results[0].ladder)
    if html is not None:
        write(html, page(climbed.texts if climbed else None, results[0]))
    if json:
        show.data([one.to_dict() for one in results] if every else results[0].to_dict())
    elif not every:
        _show(climbed, results[0], whole=to is None)
        if html is not None:
            show.line(f"\nwrote {html}", "bold")
    if not all(one.right for one in results):
        raise typer.Exit(1)


def _climbed(
    source: Ladder,
    device: Selection,
    to: int | None,
    record: Path | None,
    json: bool,
    every: bool,
) -> Climb:
    """Climbs one ladder with a progress bar. With `every`, `to` may lie beyond the last rung."""
    if every and to is not None:
        # Ladders have different lengths: one `--to` must not fail for the short ones.
        to = min(to, source.rungs[-1].number)
    with show.ends_at_once(), show.bar(quiet=json) as progress:
        rungs = sum(to is None or r.number <= to for r in source.rungs)
        task = progress.add_task(source.op.name, total=rungs)

        def tell(what: str) -> None:
            progress.update(task, advance=1, description=f"{source.op.name}: {what}")

        return climb(source, device=device, to=to, record=record, progress=tell)


def _ladder(name: str) -> Ladder | None:
    """The ladder of a climb. None for a record whose folder is not on this machine."""
    try:
        return ladder.find(name)
    except Error:
        return None


def _list(json: bool) -> None:
    ladders = [ladder.find(name) for name in ladder.names()]
    if json:
        listed = [{"name": x.path.name, "rungs": [r.title for r in x.rungs]} for x in ladders]
        show.data([*listed, {"name": NAME, "rungs": [*TITLES]}])
        return
    rows = [(x.path.name, str(len(x.rungs)), x.about) for x in ladders]
    rows.append((NAME, str(len(TITLES)), ABOUT))
    show.table(["ladder", "rungs", "what it computes"], rows, right=["rungs"])
    show.line("\nweft climb NAME")


def _print(lines: Iterable[Styled]) -> None:
    for text, style in lines:
        show.line(text, style)


def _show(source: Ladder | None, result: Climb, *, whole: bool) -> None:
    how = "timed on" if result.device.startswith("gpu") else "checked and counted for"
    signature = f": {source.op.signature}" if source is not None else ""
    show.line(f"{result.ladder}{signature}, {how} {result.gpu}", "bold")
    _print(climb_text.rungs(source.texts if source else None, result))
    for table in climb_text.summaries(result):
        show.line(f"\n{table.title}", "bold")
        for text in table.about:
            show.line(text, "dim")
        show.table(table.columns, table.rows, right=table.right)
    for text in climb_text.notes(result):
        show.line(text, "yellow")
    if source is not None and source.text and whole:  # skipped when --to stops the climb early
        is_own = source.path.parent != ladder.HOME
        where = (
            source.path / "ladder.md" if is_own else f"weft climb {source.path.name} --html FILE"
        )
        show.line(f"\nWhat was measured, and why: {where}")
