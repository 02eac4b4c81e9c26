"""`weft extract FILE LAYER`: write a layer of a PyTorch model as a ladder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.tasks.model import extract


def run(
    file: Annotated[Path, typer.Argument(help="A script (.py) that runs the model.")],
    layer: Annotated[str, typer.Argument(help="A layer, as `weft profile FILE` shows it.")],
    name: Annotated[str, typer.Option(help="The ladder's name; by default the layer's.")] = "",
    where: Annotated[Path, typer.Option("--in", help="Create the folder in this one.")] = Path("."),
    device: Annotated[str, typer.Option(help="sim or sim:MODEL, where the script runs.")] = "sim",
    gpu: options.Gpu = None,
    args: program_options.Args = "",
    json: show.Json = False,
) -> None:
    """Write the computation that takes most of a layer's time as a ladder, for `weft climb`.

    The script is run, and the layer's sizes and types are taken from one of its steps. The ladder
    has the operation with a reference in PyTorch, and a naive kernel to start from.
    """
    asked = extract.ExtractOptions(
        file, layer, options.device(device, gpu), args, name, where, json
    )
    made = extract.extract(asked)
    if json:
        found = {**vars(made), "files": sorted(map(str, made.files)), "folder": str(made.folder)}
        show.data(found)
        return
    sizes = ", ".join(f"{name}={n}" for name, n in made.sizes.items())
    show.line(f"{made.operation} in {made.layer}: {made.about}", "bold")
    show.line(f"sizes of the model: {sizes}", "dim")
    for written in sorted(os.path.relpath(path) for path in made.files):
        show.line(written)
    show.line(f"\nNext: {made.command}")
