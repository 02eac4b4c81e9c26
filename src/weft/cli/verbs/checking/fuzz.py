"""`weft fuzz`: random CUDA C++ on the simulated GPU against the same program on the host."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Annotated

import typer

from weft import interrupted
from weft.cli import show, sweep_options
from weft.fuzz import findings
from weft.report.fuzzing import text
from weft.tasks.cluster import fuzz


def run(
    programs: Annotated[int, typer.Option(help="Number of programs.", min=1)] = 480,
    seed: Annotated[int | None, typer.Option(help="Seed of the programs. Default: new.")] = None,
    first: Annotated[int, typer.Option(help="Number of the first program.", min=0)] = 0,
    minutes: Annotated[
        float, typer.Option(help="Minutes after which no program is begun.", min=0)
    ] = math.inf,
    minimise: Annotated[int, typer.Option(help="Most findings to make smaller.", min=0)] = 10,
    out: Annotated[Path, typer.Option(help="Folder for findings.")] = Path("weft-fuzz"),
    workers: sweep_options.Workers = None,
    ray: sweep_options.Ray = "",
    json: show.Json = False,
) -> None:
    """Run random CUDA C++ programs on the simulated GPU and, compiled by g++, on the host.

    Every bit of every variable must be equal. A program that differs is made smaller and written to
    a folder, with the command that repeats it. The exit code is 1 if a program differs, and 130
    after Ctrl-C, which ends the run with a summary.
    """
    options = fuzz.FuzzOptions(programs, seed, first, minutes, minimise, out, workers, ray)
    steps = functools.partial(show.steps, quiet=json, at_once=False)
    fuzzed = fuzz.fuzz(options, steps, show.warning)
    show.result(json, fuzzed.to_dict, text.summary(fuzzed, findings.text))
    if fuzzed.interrupted:
        raise typer.Exit(interrupted.exit_code())
    raise typer.Exit(1 if fuzzed.findings else 0)
