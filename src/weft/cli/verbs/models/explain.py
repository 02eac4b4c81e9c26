"""`weft explain FILE`: show the kernels that weft makes of a PyTorch model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.report.model import explanation
from weft.tasks.model import explain


def run(
    file: Annotated[Path, typer.Argument(help="A script (.py) that calls a model.")],
    device: Annotated[
        str, typer.Option(help="sim or sim:MODEL: the GPU that times are modelled for.")
    ] = "sim",
    gpu: options.Gpu = None,
    args: program_options.Args = "",
    html: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    json: show.Json = False,
) -> None:
    """Show how torch.compile(model, backend="weft") runs the model of a script.

    The script is run until it calls a model for the first time. Every step of the compiled graphs
    is listed, forward and backward: fused kernels, ops of weft, and what is left to PyTorch.
    """
    asked = explain.ExplainOptions(file, options.device(device, gpu), args, json)
    found = explain.explain(asked)
    show.result(json, found.to_dict, explanation.view(found))
    if html is not None:
        show.page(html, explanation.page(found), quiet=json)
