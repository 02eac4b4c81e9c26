"""`weft bench ops`: time the op library on random calls."""

from __future__ import annotations

import functools
import math
from typing import Annotated

import typer

from weft.cli import options, show, sweep_options
from weft.report import sweep
from weft.tasks import bench_ops


def run(
    seed: sweep_options.Seed = 1,
    calls: Annotated[int, typer.Option("--calls", "--count", help="Calls per op.", min=1)] = 60,
    most: Annotated[int, typer.Option(help="Largest number of elements.", min=2)] = 2**26,
    ops: Annotated[str, typer.Option(help="Only these ops, comma-separated.")] = "",
    device: Annotated[str, typer.Option(help="gpu; simulated GPUs have no times.")] = options.AUTO,
    compile: sweep_options.Compile = True,
    budget: sweep_options.Budget = 1800.0,
    limit: sweep_options.Limit = math.inf,
    jobs: sweep_options.Jobs = 1,
    again: sweep_options.Again = None,
    below: sweep_options.Below = 0.8,
    host: Annotated[
        bool, typer.Option(help="Time only the host's part of calls of small tensors.")
    ] = False,
    record: sweep_options.Record = None,
    ray: sweep_options.Ray = "",
    workers: sweep_options.Workers = None,
    json: show.Json = False,
) -> None:
    """Time the op library on random calls, together with PyTorch and torch.compile.

    Every result is compared with float64. The exit code is 1 if one is wrong. With --ray, the GPUs
    of a cluster share the calls.
    """
    cluster = sweep_options.cluster(ray, workers)
    asked = bench_ops.SweepOptions(
        seed, calls, most, ops, compile, budget, limit, jobs, again, below, host, record, cluster
    )
    swept = bench_ops.bench(
        asked,
        None if device == options.AUTO else options.device(device),
        functools.partial(show.steps, quiet=json, at_once=cluster is None),
    )
    times = sweep.host_times(swept.host) if host else sweep.summary(swept.swept, swept.host)
    show.result(json, swept.to_dict, times)
    raise typer.Exit(0 if swept.right else 1)
