"""`weft run FILE [ARGS...]`: a script or a whole program, its kernels on the simulated GPU."""

from __future__ import annotations

import importlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.device import models
from weft.errors import Error

SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""What follows the file belongs to it, options too."""

_RUNNERS = {".py": "weft.frontends.script", ".cu": "weft.frontends.program"}
"""Suffix -> the module whose `run(path, args, device=, gpu=)` gives the exit code."""


class Device(StrEnum):
    """Where kernels run."""

    sim = "sim"
    gpu = "gpu"


def run(
    file: Annotated[Path, typer.Argument(help="A Python script or a CUDA program (.py, .cu).")],
    args: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    device: Annotated[
        Device, typer.Option(help="Simulate a GPU, or use the one that is there.")
    ] = Device.sim,
    gpu: Annotated[str, typer.Option(help="The GPU to simulate.")] = models.DEFAULT,
) -> None:
    """Run a Python script (Triton, Numba, PyTorch) or a CUDA program on the simulated GPU.

    Options of weft stand before the file; all that follows is the program's.
    """
    runner = _RUNNERS.get(file.suffix)
    if runner is None:
        raise Error(
            "weft run does not know what to do with this file",
            got=str(file),
            allowed=f"files that end in {' or '.join(_RUNNERS)}",
        )
    code = importlib.import_module(runner).run(str(file), args or [], device=device.value, gpu=gpu)
    raise typer.Exit(code)
