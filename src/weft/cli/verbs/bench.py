"""`weft bench PATH`: time solutions or rungs against library implementations (peers)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from weft.cli import bench_ops, options, show
from weft.climbing import benchmark, ladder, records
from weft.climbing.records import Climb
from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.measure.bench.bench import to_time
from weft.measure.check import user_file
from weft.measure.op import Op
from weft.report import climb_text
from weft.report.climb_page import page
from weft.report.files import write

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
    where = to_time(None) if device == options.AUTO else options.device(device)
    where = options.device(where, gpu)
    where.require("time on", next="--device sim gives floors and counters")
    if path == OPS:
        _refuse_sim(where, asked=device != options.AUTO)
        bench_ops.run(
            bench_ops.Options(
                seed,
                calls,
                most,
                ops,
                compile,
                budget,
                limit,
                jobs,
                again,
                below,
                host,
                record,
                json,
            )
        )
        return
    if path.endswith(".jsonl"):
        results = [r for n, r in records.newest(Path(path)).items() if only in ("", n)]
    else:
        with show.ends_at_once(), _progress(quiet=json) as tell:
            # A list, so that everything runs before the progress bar ends and the tables are
            # printed.
            results = [*_results(path, only, peer or [], where, tell)]
        for result in results if record is not None else ():
            records.append(record, result)  # type: ignore[arg-type]
    if not results:
        recorded = ", ".join(records.newest(Path(path)))
        got = only or "an empty file"
        raise ArgumentError("no such record", where=path, got=got, allowed=recorded)
    if html is not None:
        write(html, page(None, _one(results), verb="bench"))
    if json:
        show.data([r.to_dict() for r in results])
    else:
        for result in results:
            _show(result, asked=not path.endswith(".jsonl") and device == options.AUTO)
        if html is not None:
            show.line(f"\nwrote {html}", "bold")
    if not all(r.right for r in results):
        raise typer.Exit(1)


def _refuse_sim(device: Selection, *, asked: bool) -> None:
    if asked and not device.real:
        raise ArgumentError(
            "`weft bench ops` measures times, and the simulated GPU has none",
            got=f"--device {device.word}", allowed="--device gpu",
            next="`weft tune OP --list` shows candidates and modelled times without a GPU",
        )  # fmt: skip


def _results(
    path: str, only: str, peers: list[str], device: Selection, tell: Callable[[str], None]
) -> Iterator[Climb]:
    if not path.endswith(".py"):
        if Path(path).is_file():
            raise ArgumentError(
                "weft bench times an operation with its solutions; this file has none",
                got=path,
                allowed="a Python file with a weft.Op and @op.solution, the name or folder of a "
                "ladder, a .jsonl file of records, or `ops`",
                next="describe the operation in a Python file: docs/bench.md; "
                f"`weft profile {path}` counts what a program does",
            )
        whole = ladder.find(path)
        if only:
            titles = ", ".join(r.name for r in whole.rungs)
            rungs = tuple(r for r in whole.rungs if only in (r.name, r.title))
            if not rungs:
                raise ArgumentError("no such rung", where=path, got=only, allowed=titles)
            whole = replace(whole, rungs=rungs)
        chosen = replace(whole, op=_with(whole.op, peers))
        yield benchmark.bench_ladder(chosen, device=device, progress=tell)
        return
    # By identity: an Op has lists in it and cannot be a key.
    by_op: dict[int, tuple[Op, dict[str, benchmark.Solution]]] = {}
    for op, name, solution in user_file.solutions(Path(path), only):
        by_op.setdefault(id(op), (op, {}))[1][name] = solution
    for op, solutions in by_op.values():
        yield benchmark.bench_file(_with(op, peers), solutions, device=device, progress=tell)


def _with(op: Op, peers: list[str]) -> Op:
    return replace(op, peers=[*op.peers, *peers])


def _one(results: list[Climb]) -> Climb:
    if len(results) > 1:
        names = ", ".join(r.ladder for r in results)
        raise ArgumentError("a page shows one operation", got=names, next="--only NAME")
    return results[0]


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    hidden = quiet or not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=show.console(), transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)
        yield lambda what: progress.update(task, description=what)


def _show(result: Climb, *, asked: bool) -> None:
    on_gpu = result.device.startswith("gpu")
    if not on_gpu and asked:
        show.line("There is no GPU, so nothing was timed. Floors and simulated counters:", "yellow")
    how = "timed on" if on_gpu else "checked and counted for"
    show.line(f"{result.ladder}, {how} {result.gpu}", "bold")
    if not on_gpu:
        for case, text in result.floors.items():
            show.line(f"  {case}: {text}")
    for text, style in climb_text.failures(result):
        show.line(text, style)
    for table in climb_text.summaries(result):
        show.line(f"\n{table.title}", "bold")
        for text in table.about:
            show.line(text, "dim")
        show.table(table.columns, table.rows, right=table.right)
    for text in climb_text.notes(result):
        show.line(text, "yellow")
