"""Options that `weft tune`, `weft fuzz`, `weft bench ops` and `weft bench models` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.errors import ArgumentError
from weft.tasks.cluster.gpus import ClusterOptions

Seed = Annotated[int, typer.Option(help="Seed of the calls.")]
Compile = Annotated[bool, typer.Option(help="Also time torch.compile.")]
Budget = Annotated[
    float, typer.Option(help="Seconds after which torch.compile is not timed.", min=0)
]
Limit = Annotated[
    float, typer.Option("--limit", "--seconds", help="Seconds after which the sweep ends.", min=0)
]
Jobs = Annotated[
    int, typer.Option(help="Processes that compile; one at a time uses the GPU.", min=1)
]
Again = Annotated[Path | None, typer.Option(help="Time the slow calls of this record again.")]
Below = Annotated[
    float, typer.Option(help="With --again: calls slower than this ratio to the best peer.")
]
Record = Annotated[
    Path | None, typer.Option("--record", "--out", help="Append the result to this file.")
]
Ray = Annotated[
    str, typer.Option(help="Spread over a Ray cluster: HOST:PORT or auto. local: start Ray here.")
]
Workers = Annotated[
    int | None, typer.Option(help="Worker processes. Default: one per GPU, or per CPU.", min=1)
]


def cluster(ray: str, workers: int | None) -> ClusterOptions | None:
    """The cluster that the options name, if any."""
    if ray:
        return ClusterOptions(ray, workers, show.warning)
    if workers is not None:
        raise ArgumentError(
            "--workers needs a cluster", got=f"--workers {workers}", allowed="with --ray ADDRESS"
        )
    return None
