"""`weft bench models`: time layer calls of public models."""

from __future__ import annotations

import functools
import math
from typing import Annotated

import typer

from weft.cli import options, show, sweep_options
from weft.report import models as report
from weft.tasks import bench_models


def run(
    seed: sweep_options.Seed = 1,
    calls: Annotated[int, typer.Option(help="Number of calls.", min=1)] = 200,
    models: Annotated[str, typer.Option(help="Only these models, comma-separated.")] = "",
    kinds: Annotated[
        str, typer.Option(help="Only layers of these kinds: products, attention, conv, norm, …")
    ] = "",
    only: Annotated[
        str,
        typer.Option(
            help='Calls by name: "llama3-8b linear tokens=1,700; resnet50 conv" or @FILE.'
        ),
    ] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="List the calls with their least times; make none.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="gpu: time. sim: check small versions of the calls.")
    ] = options.AUTO,
    compile: sweep_options.Compile = True,
    max_autotune: Annotated[
        bool, typer.Option(help="Compile all layers, by torch.compile's max-autotune.")
    ] = False,
    cudnn_benchmark: Annotated[
        bool, typer.Option(help="Let cuDNN time its algorithms and take the fastest.")
    ] = False,
    budget: sweep_options.Budget = 1800.0,
    limit: sweep_options.Limit = math.inf,
    jobs: sweep_options.Jobs = 1,
    again: sweep_options.Again = None,
    below: sweep_options.Below = 0.9,
    record: sweep_options.Record = None,
    ray: sweep_options.Ray = "",
    workers: sweep_options.Workers = None,
    json: show.Json = False,
) -> None:
    """Time layer calls of public models, drawn by a seed, together with PyTorch.

    Calls are timed as a user makes them and in CUDA graphs, beside PyTorch, its attention backends
    and torch.compile. Every result is compared with a wider type. The exit code is 1 if one is
    wrong, or less precise than PyTorch's. With --ray, the GPUs of a cluster share the calls, or
    its CPUs with --device sim.
    """
    cluster = sweep_options.cluster(ray, workers)
    wanted = bench_models.ModelOptions(
        seed, calls, models, kinds, only, again, below, compile, max_autotune, budget, limit, jobs,
        cudnn_benchmark, record, cluster,
    )  # fmt: skip
    if list_:
        found = bench_models.listed(wanted)
        show.result(json, lambda: [c.to_dict() for c in found], report.listed(found))
        return
    simulated = device != options.AUTO and not options.device(device).real
    steps = functools.partial(show.steps, quiet=json, at_once=cluster is None)
    if cluster is not None and not simulated:
        by_gpu = bench_models.bench_on_cluster(wanted, cluster, steps)
        blocks = (block for one in by_gpu for block in report.of_gpu(one))
        show.result(json, lambda: [one.to_dict() for one in by_gpu], blocks)
        raise typer.Exit(0 if all(one.right for one in by_gpu) else 1)
    task = bench_models.check if simulated else bench_models.bench
    times = task(wanted, steps)
    show.result(json, times.to_dict, report.summary(times))
    raise typer.Exit(0 if times.right else 1)
