"""`weft lab export FOLDER`: kernels of the lab as pages of a static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.tasks.prediction import predict


def run(
    folder: Annotated[Path, typer.Argument(help="A new or an empty folder.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(help="example:transpose, learn:04/strip, …; without names, all examples."),
    ] = None,
    on: Annotated[
        str, typer.Option(help="GPUs of `weft devices`, with commas; the first is simulated.")
    ] = "h200",
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds that a launch may take.")] = 60,
    memory: Annotated[float, typer.Option(min=0.5, help="GiB that the worker may use.")] = 4,
    json: show.Json = False,
) -> None:
    """Export kernels of the lab as read-only pages: source, results, facts per line, pictures.

    Each page has all that it needs in it: it opens from a file, and from any static server.
    Sources in Triton and Numba, and whole programs, run with your rights.
    """
    from weft.lab.exporting import export
    from weft.lab.process import LabWorker

    gpus = predict.gpus(on)
    wanted = list(export.jobs(names or []))
    worker = LabWorker(limit=time_limit, memory=int(memory * 2**30))
    try:
        made = export.export(
            folder, wanted, worker, device=f"sim:{gpus[0]}", gpus=gpus,
            done=lambda title: None if json else show.line(title, "dim"),
        )  # fmt: skip
    finally:
        worker.close()
    if json:
        show.data({"pages": [str(path) for path in made]})
    else:
        show.line(f"wrote {made[0]} and {len(made) - 1} pages", "bold")
