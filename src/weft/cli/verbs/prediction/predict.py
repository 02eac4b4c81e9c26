"""`weft predict FILE`: predict the times of the kernels of a script or program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.report.prediction.text import view
from weft.tasks.prediction import predict
from weft.tasks.profile import ProfileOptions
from weft.tasks.program import Build


@program_options.with_build("poison", "procs")
def run(
    file: Annotated[
        Path, typer.Argument(help="A script (.py), a program (.cu) or a record (.json).")
    ],
    on: Annotated[str, typer.Option(help="GPUs of `weft devices`, with commas between.")] = "h200",
    kernel: Annotated[str | None, typer.Option(help="Only kernels with this name.")] = None,
    launch: Annotated[
        int | None, typer.Option(min=0, help="Only this launch, counted from 0.")
    ] = None,
    args: program_options.Args = "",
    *,
    build: Build,
    json: show.Json = False,
) -> None:
    """Predict the time of every kernel that a script or program launches. No GPU is needed.

    The simulated GPU counts instructions and memory traffic; a model of the GPU makes times of
    them, says what bounds each kernel, and where its warps wait. docs/predict.md has the errors.
    """
    keys = predict.gpus(on)
    asked = ProfileOptions(
        file, options.device(f"sim:{keys[0]}"), kernel, launch, args, build, quiet=json
    )
    found = predict.predict(asked, keys)
    show.result(json, found.to_dict, view(found.counted, found.names, found.launches))
