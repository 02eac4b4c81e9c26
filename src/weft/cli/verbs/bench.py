"""`weft bench PATH`: time solutions or rungs against library implementations (peers)."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, show
from weft.report import climb_text, sweep
from weft.report.climb_page import page
from weft.tasks import bench, bench_ops

OPS = "ops"
"""The argument that selects the op library instead of a file or a ladder."""
SWEEP = "Options of `weft bench ops`"


def run(
    path: Annotated[
        str,
        typer.Argument(help="A file with @op.solution, a ladder, a .jsonl file, or `ops`."),
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
    seed: Annotated[int, typer.Option(help="Seed of the calls.", rich_help_panel=SWEEP)] = 1,
    calls: Annotated[
        int,
        typer.Option("--calls", "--count", help="Calls per op.", min=1, rich_help_panel=SWEEP),
    ] = 60,
    most: Annotated[
        int, typer.Option(help="Largest number of elements.", min=2, rich_help_panel=SWEEP)
    ] = 2**26,
    ops: Annotated[
        str, typer.Option(help="Only these ops, comma-separated.", rich_help_panel=SWEEP)
    ] = "",
    compile: Annotated[
        bool, typer.Option(help="Also time torch.compile.", rich_help_panel=SWEEP)
    ] = True,
    budget: Annotated[
        float,
        typer.Option(
            help="Seconds after which torch.compile is not timed.", min=0, rich_help_panel=SWEEP
        ),
    ] = 1800.0,
    limit: Annotated[
        float,
        typer.Option(help="Seconds after which the sweep ends.", min=0, rich_help_panel=SWEEP),
    ] = math.inf,
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes that compile; one at a time uses the GPU.",
            min=1,
            rich_help_panel=SWEEP,
        ),
    ] = 1,
    again: Annotated[
        Path | None,
        typer.Option(help="Time the slow calls of this record again.", rich_help_panel=SWEEP),
    ] = None,
    below: Annotated[
        float,
        typer.Option(
            help="With --again: calls slower than this ratio to the best peer.",
            rich_help_panel=SWEEP,
        ),
    ] = 0.8,
    host: Annotated[
        bool,
        typer.Option(
            help="Time only the host's part of calls of small tensors.", rich_help_panel=SWEEP
        ),
    ] = False,
    json: show.Json = False,
) -> None:
    """Time the solutions of a file, or the rungs of a ladder, together with their peers.

    Results are checked before and after timing. Without a GPU, weft prints the least time that
    the hardware allows and the simulator's counters. For a .jsonl file, weft prints its records.
    The exit code is 1 if a contender is wrong.

    `weft bench ops` times the op library on random calls, together with PyTorch and torch.compile.
    """
    where = bench.place() if device == options.AUTO else options.device(device)
    where = options.device(where, gpu)
    where.require("time on", next="--device sim gives floors and counters")
    if path == OPS:
        swept = bench_ops.bench(
            bench_ops.SweepOptions(
                seed, calls, most, ops, compile, budget, limit, jobs, again, below, host, record
            ),
            None if device == options.AUTO else where,
            functools.partial(show.steps, quiet=json),
        )
        times = sweep.host_times(swept.host) if host else sweep.summary(swept.swept, swept.host)
        show.result(json, swept.to_dict, times)
        raise typer.Exit(0 if swept.right else 1)
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
