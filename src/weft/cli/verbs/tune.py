"""`weft tune OP`: measure the kernels that an op of the library can use; store the fastest."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

from weft.cli import options, show, sweep_options
from weft.report import sweep
from weft.tasks import tune


def run(
    op: Annotated[str, typer.Argument(help="An op of weft.ops: softmax, matmul, sum, …")] = "",
    shapes: Annotated[
        str, typer.Option(help="Calls: '64x4096,4096x4096;8x512,512x512'. Default: random calls.")
    ] = "",
    dtype: Annotated[str, typer.Option(help="Data type of the tensors of --shapes.")] = "float32",
    set: Annotated[
        list[str] | None,
        typer.Option(help="Set an option of the op, with --shapes, e.g. dim=0. Repeatable."),
    ] = None,
    calls: Annotated[int, typer.Option(help="Number of random calls.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random calls.")] = 1,
    device: Annotated[
        str, typer.Option(help="gpu: measure. With --list also sim:MODEL. auto: the GPU or sim.")
    ] = options.AUTO,
    list: Annotated[
        bool, typer.Option("--list", help="List the candidates, or all ops; measure nothing.")
    ] = False,
    record: sweep_options.Record = None,
    ray: sweep_options.Ray = "",
    workers: sweep_options.Workers = None,
    json: show.Json = False,
) -> None:
    """Measure the kernels that an op can use for some calls, and store the fastest.

    weft measures on the GPU of this machine and stores the results in the user's cache. Later calls
    with the same dtypes, shapes, strides and options use them. --list needs no GPU. With --ray,
    the GPUs of a cluster share the calls.
    """
    # Options are named after their parameters, so `set` and `list` are not the built-ins here.
    if list and not op:
        show.result(json, tune.names, ((name, "") for name in tune.names()))
        return
    chosen = None if device == options.AUTO else options.device(device)
    cluster = sweep_options.cluster(ray, workers)
    asked = tune.TuneOptions(
        op, shapes, dtype, set or (), calls, seed, chosen, list, record, cluster
    )
    results = tune.tune(asked, functools.partial(show.steps, quiet=json, at_once=cluster is None))
    show.result(
        json, lambda: [one.to_dict() for one in results], sweep.tuned(results, measured=not list)
    )
