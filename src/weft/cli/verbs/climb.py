"""`weft climb NAME`: run every rung of a ladder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, show
from weft.errors import ArgumentError
from weft.report import climb_text, training
from weft.report.climb_page import page
from weft.tasks import climb, versions


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
    chosen, steps = options.device(device, gpu), functools.partial(show.steps, quiet=json)
    if every and (name or recorded or html):
        raise ArgumentError(
            "--all climbs every ladder and takes no name, --from or --html",
            got=name or str(recorded or html),
            next="leave it out",
        )
    if not (name or every or recorded):
        if html or record or to is not None:
            raise climb.no_name()
        _list(json)
        return
    if name == versions.TRAINING:
        if recorded or html:
            raise ArgumentError(
                f"weft climb {name} takes no --from and no --html",
                next="--json prints everything; weft train mnist --html writes a page",
            )
        reached = versions.climb(versions.VersionOptions(chosen, to, record), steps)
        show.result(json, reached.to_dict, training.versions(reached))
        raise typer.Exit(0 if reached.right else 1)
    results = []
    for result in climb.climbs(
        climb.ClimbOptions(name, chosen, to, every, record, recorded), steps
    ):
        results.append(result)
        if every and not json:
            show.blocks(climb_text.failures(result))
    first, source = results[0], climb.texts(name or results[0].ladder)
    if json:
        show.data([one.to_dict() for one in results] if every else first.to_dict())
    elif not every:
        show.blocks(climb_text.climb(source, first, whole=to is None))
    if html is not None:
        show.page(html, page(source, first), quiet=json, gap="\n")
    if not all(one.right for one in results):
        raise typer.Exit(1)


def _list(json: bool) -> None:
    ladders = climb.ladders()
    names = [{"name": one.name, "rungs": one.rungs} for one in ladders]
    show.result(json, lambda: names, climb_text.ladders(ladders))
