"""`weft bench PATH`: time solutions or rungs against library implementations (peers)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, show
from weft.report import climb_text
from weft.report.climb_page import page
from weft.tasks import bench


def run(
    path: Annotated[
        str,
        typer.Argument(
            help="A file with @op.solution, a ladder, a .jsonl file, `ops`, `models` or `networks`."
        ),
    ],
    only: Annotated[str, typer.Option(help="Bench only this operation, solution or rung.")] = "",
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Add a peer: 'torch.relu(x)' or 'compile: torch.relu(x)'. Repeatable."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="gpu: time. sim or sim:MODEL: count. auto: time if there is a GPU.")
    ] = options.AUTO,
    gpu: options.Gpu = None,
    record: Annotated[Path | None, typer.Option(help="Append the result to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    json: show.Json = False,
) -> None:
    """Time the solutions of a file, or the rungs of a ladder, together with their peers.

    Results are checked before and after timing. Without a GPU, weft prints the least time that
    the hardware allows and the simulator's counters. For a .jsonl file, weft prints its records.
    The exit code is 1 if a contender is wrong.

    `weft bench ops` times the op library on random calls, `weft bench models` on those of models,
    `weft bench networks` whole networks; each has options of its own.
    """
    where = bench.place() if device == options.AUTO else options.device(device)
    where = options.device(where, gpu)
    where.require("time on", next="--device sim gives floors and counters")
    with show.ends_at_once(), show.spinner(quiet=json, clock=True) as notify:
        results = bench.bench(bench.BenchOptions(path, where, only, peer or (), record), notify)
    shown = page(None, bench.one(results), verb="bench") if html is not None else ""
    if json:
        show.data([r.to_dict() for r in results])
    else:
        new = not path.endswith(bench.RECORDS)
        for result in results:
            in_vain = new and device == options.AUTO
            show.blocks(climb_text.bench(result, without_gpu=in_vain))
    if html is not None:
        show.page(html, shown, quiet=json, gap="\n")
    if not all(r.right for r in results):
        raise typer.Exit(1)
